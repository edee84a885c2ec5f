"""One cluster with one worker for all tests that only submit to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tasks import jobs
from tests.harness.celery_app import client_of
from tests.harness.cluster import Cluster
from tests.harness.gateway import BODY_LIMIT, Gateway
from tests.harness.waiting import wait_until
from worker.app import LongstreamApp
from worker.store.keys import pool_keys


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("shared"), LONGSTREAM_WORKER__MAX_ATTEMPTS="1")
    running.worker("--concurrency", "20")
    yield running
    running.close()


@pytest.fixture(scope="session")
def gateway(shared: Cluster) -> Iterator[Gateway]:
    """One that asks nobody on this machine for a token."""
    environ = {**shared.environ, "LONGSTREAM_GATEWAY__MAX_BODY_BYTES": str(BODY_LIMIT)}
    running = Gateway(shared.state, environ)
    yield running
    running.close()


@pytest.fixture(scope="session")
def paced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One whose answers take long enough for something to go wrong meanwhile."""
    running = Cluster(
        tmp_path_factory.mktemp("paced"),
        speed="12",
        LONGSTREAM_WORKER__MAX_ATTEMPTS="3",
        LONGSTREAM_WORKER__BACKOFF_S="0.2",
    )
    running.worker("--concurrency", "10")
    yield running
    running.close()


@pytest.fixture(scope="session")
def paced_gateway(paced: Cluster) -> Iterator[Gateway]:
    """What is asked of it without a model does not end by itself."""
    running = Gateway(paced.state, {**paced.environ, "LONGSTREAM_MODEL": "sim:stall"})
    yield running
    running.close()


@pytest.fixture(scope="module")
def app(shared: Cluster) -> Iterator[LongstreamApp]:
    """Celery in this process, as a client of the shared cluster, where nothing is left of what the
    tests of other files have asked for."""
    tickets = pool_keys("simulator").tickets
    with client_of(shared.settings) as client:
        left: Any = shared.client.hkeys(tickets)
        for job_id in left:
            jobs.cancel(job_id.decode())
        wait_until("they are cancelled", lambda: not shared.client.exists(tickets))
        yield client
