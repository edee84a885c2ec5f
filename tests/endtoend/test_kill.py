"""A worker that dies by kill -9 in mid-stream costs time, and not one character."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, attempts, read, running_on, streaming
from tests.harness.leaks import nothing_left
from tests.harness.waiting import wait_until
from worker.log import entries
from worker.log.cursor import START, Cursor
from worker.store.connections import connect
from worker.store.keys import job_keys, pool_keys

#: About 2,000 visible tokens; at this speed they take some seconds.
MODEL = "sim:slow"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(
        tmp_path, speed="30", LONGSTREAM_WORKER__LEASE_S="2", LONGSTREAM_WORKER__RENEW_S="0.5"
    )
    with closing(running):
        yield running
        nothing_left(running)


def entries_of(cluster: Cluster, job_id: str) -> list[tuple[Cursor, entries.Entry]]:
    stored: Any = cluster.client.xrange(job_keys(job_id).log)
    return [(Cursor.parse(at), entries.decode(raw[entries.FIELD])) for at, raw in stored]


def intended(cluster: Cluster) -> str:
    """What the simulator meant to say; the same request gives the same text every time."""
    texts = {entry["visible"] for entry in cluster.ledger()}
    assert len(texts) == 1
    return str(texts.pop())


@pytest.mark.timeout(120)
def test_kill_9_in_mid_stream_loses_and_repeats_nothing(cluster: Cluster) -> None:
    first = cluster.worker()
    cluster.submit("Explain the tides.", "kill9", MODEL)
    with ThreadPoolExecutor(1) as pool, connect(cluster.valkey.url) as client:
        attached = pool.submit(read, client, "kill9")
        wait_until("text flows", lambda: streaming(cluster, "kill9"))
        cluster.kill(first)
        cluster.worker()
        text, end = attached.result(90)

    assert text == intended(cluster)
    assert (end.outcome, end.attempts, end.length) == ("completed", 2, len(text))

    stored = [at for at, _ in entries_of(cluster, "kill9")]
    for cursor in random.sample(stored, 20):
        had = _clean_text_at(cluster, cursor)
        assert read(cluster.client, "kill9", cursor, had)[0] == text
    assert read(cluster.client, "kill9", START)[0] == text


@pytest.mark.timeout(120)
def test_another_worker_takes_over_within_a_lease_and_two_seconds(cluster: Cluster) -> None:
    workers = [cluster.worker(), cluster.worker()]
    cluster.submit("Explain the moon.", "over", MODEL)
    cluster.kill(running_on(cluster, "over", workers))
    within = cluster.settings.worker.lease_s + 2
    wait_until("a second attempt", lambda: attempts(cluster, "over") == b"2", within)
    assert cluster.client.hvals(pool_keys("simulator").load) == [b"1"]
    text, _ = read(cluster.client, "over")
    assert text == intended(cluster)


@pytest.mark.timeout(120)
def test_a_frozen_worker_that_wakes_up_writes_nothing(cluster: Cluster) -> None:
    workers = [cluster.worker(), cluster.worker()]
    cluster.submit("Explain the sun.", "zombie", MODEL)
    zombie = running_on(cluster, "zombie", workers)
    zombie.send_signal(signal.SIGSTOP)
    wait_until("a second attempt", lambda: attempts(cluster, "zombie") == b"2", 30)
    zombie.send_signal(signal.SIGCONT)
    text, end = read(cluster.client, "zombie")
    assert (text, end.attempts) == (intended(cluster), 2)
    ids = [at for at, _ in entries_of(cluster, "zombie")]
    assert ids == sorted(ids)
    wait_until("the zombie has hung up", lambda: all(map(_over, cluster.ledger())))


@pytest.mark.timeout(120)
def test_sigterm_hands_the_job_over_at_no_cost(cluster: Cluster) -> None:
    at_once = {"LONGSTREAM_WORKER__DRAIN_S": "0"}
    workers = [cluster.worker(**at_once), cluster.worker(**at_once)]
    cluster.submit("Explain the wind.", "drain", MODEL)
    leaving = running_on(cluster, "drain", workers)
    leaving.terminate()
    assert leaving.wait(20) == 0
    text, end = read(cluster.client, "drain")
    assert (text, end.attempts) == (intended(cluster), 2)
    assert b"crashes" not in cluster.client.hgetall(job_keys("drain").record)


@pytest.mark.timeout(120)
def test_a_second_sigterm_is_quicker_and_not_lossy(cluster: Cluster) -> None:
    patient = {"LONGSTREAM_WORKER__DRAIN_S": "600"}
    workers = [cluster.worker(**patient), cluster.worker(**patient)]
    cluster.submit("Explain the dew.", "twice", MODEL)
    leaving = running_on(cluster, "twice", workers)
    leaving.terminate()
    wait_until("it has heard", lambda: "shutdown" in cluster.log())
    leaving.terminate()
    assert leaving.wait(20) == 0
    text, end = read(cluster.client, "twice")
    assert (text, end.attempts) == (intended(cluster), 2)


@pytest.mark.timeout(180)
def test_a_job_that_kills_its_workers_three_times_is_poison(cluster: Cluster) -> None:
    doomed: subprocess.Popen[bytes]
    cluster.submit("Explain the end.", "poison", MODEL)
    died = []
    for attempt in (1, 2, 3):
        doomed = cluster.worker()
        died.append(doomed.pid)
        wait_until(
            "the attempt runs",
            lambda a=attempt: (
                cluster.client.hget(job_keys("poison").record, "attempt") == str(a).encode()
            ),
            30,
        )
        cluster.kill(doomed)
    cluster.worker()
    _, end = read(cluster.client, "poison")
    assert end.outcome == "failed"
    assert end.reason.startswith("poison: its workers died 3 times (")
    assert all(f"longstream-{pid}@" in end.reason for pid in died)


def _over(entry: dict[str, Any]) -> bool:
    return bool(entry["finished"] or entry["client_disconnected"])


def _clean_text_at(cluster: Cluster, upto: Cursor) -> str:
    had = ""
    for at, entry in entries_of(cluster, "kill9"):
        if at > upto:
            break
        if isinstance(entry, entries.Attempt):
            had = had[: entry.offset]
        elif isinstance(entry, entries.Text):
            had += entry.text
    return had


@pytest.mark.timeout(120)
def test_a_stopping_worker_ends_although_the_store_is_away(cluster: Cluster) -> None:
    at_once = {"LONGSTREAM_WORKER__DRAIN_S": "0"}
    leaving = cluster.worker(**at_once)
    cluster.submit("Explain the fog.", "away", MODEL)
    running_on(cluster, "away", [leaving])
    cluster.valkey.kill()
    leaving.terminate()
    assert leaving.wait(60) == 0
    cluster.valkey.start()
    cluster.worker()
    text, end = read(cluster.client, "away")
    assert (text, end.attempts) == (intended(cluster), 2)
