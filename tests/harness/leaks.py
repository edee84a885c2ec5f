"""After a test: no key without a TTL outside the list of those that last, and no lease."""

from __future__ import annotations

from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until
from worker.store.leftovers import Leftovers, leftovers


def nothing_left(cluster: Cluster) -> None:
    """Wait until the cluster, whose jobs have all ended, holds nothing it should not."""
    found = Leftovers((), ())

    def clean() -> bool:
        nonlocal found
        found = leftovers(cluster.client, cluster.settings.pools)
        return not found

    try:
        wait_until("nothing is left", clean)
    except AssertionError as error:
        raise AssertionError(f"left behind: {found}") from error
