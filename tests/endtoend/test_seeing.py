"""A running worker as its probes and Prometheus see it."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.cluster import Cluster, read
from tests.harness.waiting import wait_until
from worker.seeing.readiness import readiness

#: One key of another name than the embedded stack's: its refusals count.
ONE_KEY = """
[[pools.main.keys]]
alias = "acme"
provider = "simulator"
base_url = "{base}"
secret = "simulated"
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path,
        LONGSTREAM_WORKER__LEASE_S="2",
        LONGSTREAM_WORKER__RENEW_S="0.5",
        LONGSTREAM_WORKER__LISTEN="127.0.0.1:0",
        LONGSTREAM_WORKER__MAX_ATTEMPTS="1",
    )
    with closing(running):
        yield running


def address(cluster: Cluster) -> str:
    """Where the last worker listens, as it says itself."""

    def ready() -> list[str]:
        return [line for line in cluster.log().splitlines() if "worker.ready" in line]

    return f"http://{json.loads(wait_until('it is ready', ready)[-1])['listen']}"


def asked(cluster: Cluster, path: str) -> tuple[int, bytes]:
    return got(address(cluster) + path)


def got(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def samples(text: bytes) -> dict[str, float]:
    """Every sample by its name and labels, summed over what differs in keys and buckets."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                word = sample.labels.get("outcome") or sample.labels.get("state") or ""
                name = f"{sample.name} {word}".strip().removeprefix("longstream_")
                found[name] = found.get(name, 0) + sample.value
    return found


def reasons(cluster: Cluster) -> list[str]:
    return readiness(cluster.settings).reasons


def test_a_scrape_tells_what_a_worker_did_and_what_waits(cluster: Cluster) -> None:
    cluster.worker()
    cluster.submit("Explain the tides.", "seen", "sim:plain")
    read(cluster.client, "seen")

    def own() -> dict[str, float]:
        status, text = asked(cluster, "/metrics")
        assert status == 200
        return samples(text)

    wait_until("it is settled", lambda: own()["worker_leases"] == 0)
    seen = own()
    once = ("jobs_ended_total completed", "attempts_total", "wait_seconds_count")
    assert [seen[name] for name in once] == [1, 1, 1]
    assert seen["first_token_seconds_count"] >= 1
    for name in ("wire_to_log_seconds_count", "store_batch_calls_count", "tokens_total"):
        assert seen[name] > 0, name
    status, text = asked(cluster, "/metrics/fleet")
    fleet = samples(text)
    assert (status, fleet["store_up"], fleet["pool_workers"]) == (200, 1, 1)
    assert fleet["pool_jobs waiting"] == 0
    assert fleet["spent_today_unpriced_tokens"] + fleet["spent_today_usd"] > 0
    assert asked(cluster, "/else")[0] == 404


def test_a_frozen_worker_makes_the_fleet_unready(cluster: Cluster) -> None:
    worker = cluster.worker()
    assert reasons(cluster) == []
    worker.send_signal(signal.SIGSTOP)
    wait_until("nobody renews", lambda: reasons(cluster) == ["workers simulator: no worker renews"])
    worker.send_signal(signal.SIGCONT)
    wait_until("it renews again", lambda: reasons(cluster) == [])


def test_a_store_that_is_away_is_named_and_kills_no_worker(cluster: Cluster) -> None:
    cluster.worker()
    assert asked(cluster, "/readyz")[0] == 200
    cluster.valkey.kill()
    status, body = asked(cluster, "/readyz")
    store = json.loads(body)["checks"][0]
    assert (status, store["check"], store["ok"]) == (503, "store", False)
    assert "does not answer" in store["says"]
    assert asked(cluster, "/healthz")[0] == 200
    assert samples(asked(cluster, "/metrics/fleet")[1])["store_up"] == 0
    cluster.valkey.start()
    wait_until("all is well", lambda: asked(cluster, "/readyz")[0] == 200)


def test_keys_that_are_all_out_are_named_with_the_reason(cluster: Cluster) -> None:
    cluster.configure(ONE_KEY)
    cluster.celery("-l", "info")
    wait_until("the worker is ready", lambda: "worker.ready" in cluster.log("celery"), 60)
    cluster.submit("?", "refused", "sim:r5-401", pool="main")
    _, end = read(cluster.client, "refused")
    assert end.outcome == "failed"
    (reason,) = reasons(cluster)
    assert reason.startswith("keys main: no key may be used: acme: the provider answered 401")


def test_a_worker_whose_address_is_taken_says_so_and_ends(cluster: Cluster) -> None:
    cluster.worker()
    taken = address(cluster).removeprefix("http://")
    second = cluster.celery(LONGSTREAM_WORKER__LISTEN=taken)
    assert second.wait(60) == 1
    assert f"cannot listen on {taken} (Address already in use)" in cluster.log("celery")


def test_oldest_wait_and_line_are_told_while_jobs_wait(cluster: Cluster) -> None:
    cluster.worker("--concurrency", "1")
    for job in ("runs", "waits"):
        cluster.submit("Explain the moon.", job, "sim:stall")
    wait_until("one waits", lambda: _waiting(cluster) == 1)
    found = readiness(cluster.settings)
    assert found.ready, "a full worker is no fault"
    assert found.oldest_waiting_s is not None
    (line,) = [check.says for check in found.checks if check.check == "line simulator"]
    assert line.startswith("1 wait, the oldest for ")


def test_the_gateway_answers_probes_and_scrapes_for_the_fleet(cluster: Cluster) -> None:
    cluster.worker("--concurrency", "1")
    for job in ("runs", "waits"):
        cluster.submit("Explain the moon.", job, "sim:stall")
    url = serving(cluster, "open")
    with urllib.request.urlopen(f"{url}/jobs/runs/events", timeout=10) as reader:
        assert reader.readline()
        fleet = samples(got(f"{url}/metrics")[1])
    assert (fleet["gateway_readers"], fleet["pool_jobs waiting"]) == (1, 1)
    status, told = got(f"{url}/readyz")
    assert (status, json.loads(told)["oldest_waiting_s"] is not None) == (200, True)


def test_the_gateway_tells_strangers_no_more_than_whether_it_is_ready(cluster: Cluster) -> None:
    cluster.worker()
    url = serving(cluster, "closed", "--require-tokens")
    assert got(f"{url}/healthz")[0] == 200
    assert got(f"{url}/metrics")[0] == 401
    status, told = got(f"{url}/readyz")
    assert (status, json.loads(told)) == (200, {"ready": True}), "details are not for everybody"
    cluster.valkey.kill()
    wait_until("it is unready", lambda: got(f"{url}/readyz")[0] == 503)
    assert got(f"{url}/healthz")[0] == 200
    cluster.valkey.start()


def serving(cluster: Cluster, name: str, *options: str) -> str:
    """The address of a gateway that serves."""
    announced = cluster.state / name
    cluster.gateway("--announce-file", str(announced), *options)
    return str(wait_until("it serves", lambda: announced.exists() and announced.read_text()))


def _waiting(cluster: Cluster) -> float:
    return samples(asked(cluster, "/metrics/fleet")[1])["pool_jobs waiting"]
