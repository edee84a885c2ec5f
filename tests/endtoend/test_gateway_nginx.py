"""Through nginx with its default settings, which buffer and time out whatever lets them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.cluster import Cluster
from tests.harness.gateway import EventSource, Gateway, Page
from tests.harness.nginx import Nginx
from tests.harness.waiting import wait_until
from worker.log import reader

#: Default proxy_read_timeout: a connection that is silent for so long is cut.
READ_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def nginx(paced_gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    running = Nginx(tmp_path_factory.mktemp("proxy"), paced_gateway.port)
    yield running
    running.close()


@pytest.fixture
def client(nginx: Nginx) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=nginx.url, timeout=90) as client:
        yield client


def submitted(client: httpx.Client, model: str) -> str:
    body = {"kind": "generate", "prompt": f"Tell me of {model}.", "model": model}
    return str(client.post("/jobs", json=body).json()["id"])


def test_deltas_arrive_as_they_are_made(client: httpx.Client, paced: Cluster) -> None:
    """The provider falls silent in the middle of the text: all up to there is there, piece by
    piece, while the job still runs. What is held back in a buffer would not be."""
    job = submitted(client, "sim:stall")
    page, arrivals, stored = Page(), set(), ""
    for event in EventSource(client, f"/jobs/{job}/events").events():
        page.take(event)
        if event.name == "text":
            arrivals.add(round(event.at, 2))
        elif event.name == "status" and page.text:
            stored = reader.text_of(paced.client, job)
            if page.text == stored:
                break
    assert client.get(f"/jobs/{job}").json()["state"] == "running"
    assert page.text == stored
    assert len(arrivals) > 10
    client.post(f"/jobs/{job}/cancel")


def test_a_reload_loses_nothing(client: httpx.Client, nginx: Nginx, paced: Cluster) -> None:
    job = submitted(client, "sim:slow")
    source, page, reloads = EventSource(client, f"/jobs/{job}/events"), Page(), 0
    for event in source.events():
        page.take(event)
        if event.name == "text" and reloads < 2 and len(page.text) > 300 * (reloads + 1):
            reloads += 1
            old = nginx.workers()
            nginx.reload()
            wait_until("new workers serve", lambda before=old: nginx.workers() - before)
            nginx.kill_workers(old)
    assert page.text == reader.text_of(paced.client, job)
    assert page.end is not None
    assert source.connections > reloads


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_an_idle_minute_does_not_cut_the_stream(client: httpx.Client) -> None:
    job = submitted(client, "sim:stall")
    source = EventSource(client, f"/jobs/{job}/events")
    began, beats = 0.0, 0
    for event in source.once():
        if event.name == "text":
            began = event.at
        elif began and time.monotonic() - began > READ_TIMEOUT_S + 10:
            break
        beats += event.name in ("status", "heartbeat")
    assert source.connections == 1
    assert beats >= 4
    client.post(f"/jobs/{job}/cancel")
