"""Server-sent events of a job: whole, in order, resumed anywhere, and ended for good."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.harness.cluster import Cluster
from tests.harness.gateway import Event, EventSource, Gateway, Page
from tests.harness.waiting import wait_until
from worker.log import reader


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


def submitted(client: httpx.Client, prompt: str = "hello", **more: str) -> str:
    reply = client.post("/jobs", json={"kind": "generate", "prompt": prompt, **more})
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


def read(source: EventSource) -> Page:
    page = Page()
    for event in source.events():
        page.take(event)
    return page


def test_a_stock_client_gets_the_whole_text_and_does_not_come_back(
    client: httpx.Client, shared: Cluster
) -> None:
    job = submitted(client)
    source = EventSource(client, f"/jobs/{job}/events")
    page = read(source)
    assert page.text == reader.text_of(shared.client, job)
    assert page.end is not None
    assert page.end["outcome"] == "completed"
    assert page.end["length"] == len(page.text)
    assert source.status == 204
    assert source.connections == 2
    assert source.retry_ms is not None


@pytest.mark.parametrize("view", ["clean", "raw"])
def test_every_id_is_a_place_to_go_on_from(
    client: httpx.Client, shared: Cluster, view: str
) -> None:
    job = submitted(client)
    params = {"view": view}
    all_events = list(EventSource(client, f"/jobs/{job}/events", params=params).events())
    logged = [event for event in all_events if event.name != "status"]
    for k in range(0, len(logged) - 1, max(1, len(logged) // 7)):
        at = logged[k].last_id
        by_header = EventSource(client, f"/jobs/{job}/events", last_id=at, params=params)
        by_query = EventSource(client, f"/jobs/{job}/events", params={**params, "from": at})
        for source in (by_header, by_query):
            assert told(list(source.once())) == told(logged[k + 1 :])


def told(events: list[Event]) -> list[tuple[str, object, str]]:
    return [(each.name, each.data, each.last_id) for each in events if each.name != "status"]


def test_the_header_wins_over_the_query_so_that_a_browser_resumes(client: httpx.Client) -> None:
    job = submitted(client)
    all_events = told(list(EventSource(client, f"/jobs/{job}/events").events()))
    source = EventSource(client, f"/jobs/{job}/events", params={"from": "0-0"})
    middle = len(all_events) // 2
    source.last_id = all_events[middle - 1][2]
    assert told(list(source.once())) == all_events[middle:]


def test_text_comes_while_it_is_made(client: httpx.Client) -> None:
    job = submitted(client, model="sim:stall")
    first_at = 0.0
    for event in EventSource(client, f"/jobs/{job}/events").events():
        if event.name == "text" and not first_at:
            first_at = event.at
            assert client.get(f"/jobs/{job}").json()["state"] == "running"
            assert client.post(f"/jobs/{job}/cancel").status_code == 202
        if event.name == "end":
            assert event.data["outcome"] == "cancelled"
    assert first_at


def test_proxies_are_told_not_to_hold_it_back(client: httpx.Client) -> None:
    job = submitted(client)
    with client.stream("GET", f"/jobs/{job}/events") as reply:
        assert reply.headers["x-accel-buffering"] == "no"
        assert "no-cache" in reply.headers["cache-control"]
        assert "no-transform" in reply.headers["cache-control"]


def test_several_jobs_come_over_one_connection_with_one_cursor(
    client: httpx.Client, shared: Cluster
) -> None:
    jobs = [submitted(client, f"question {number}") for number in range(3)]
    source = EventSource(client, "/events", params={"jobs": ",".join(jobs)})
    pages = {job: Page() for job in jobs}
    seen = []
    for event in source.events():
        seen.append(event)
        if event.name != "done" and event.data:
            pages[event.data["job"]].take(Event(event.name, event.data["item"], event.last_id))
    assert source.status == 204
    for job, page in pages.items():
        assert page.text == reader.text_of(shared.client, job)
        assert page.end is not None
    middle = next(event.last_id for event in seen[len(seen) // 2 :] if event.last_id)
    again = EventSource(client, "/events", last_id=middle, params={"jobs": ",".join(jobs)})
    rest = [event for event in again.events() if event.name == "text"]
    before = [e for e in seen if e.name == "text"]
    assert sum(len(event.data["item"]["text"]) for event in rest) < sum(
        len(event.data["item"]["text"]) for event in before
    )
    after = dict.fromkeys(jobs, "")
    for event in rest:
        after[event.data["job"]] += event.data["item"]["text"]
    for job, text in after.items():
        assert pages[job].text.endswith(text)


def test_a_cursor_of_other_jobs_is_refused(client: httpx.Client) -> None:
    jobs = [submitted(client, f"question {number}") for number in range(2)]
    source = EventSource(client, "/events", params={"jobs": ",".join(jobs)})
    cursor = [event.last_id for event in source.events()][-1]
    other = EventSource(client, "/events", last_id=cursor, params={"jobs": ",".join(jobs[::-1])})
    assert list(other.once()) == []
    assert other.status == 400


def test_a_reader_of_a_gateway_that_is_killed_goes_on_without_loss(
    shared: Cluster, gateway: Gateway, client: httpx.Client
) -> None:
    job = submitted(client, model="sim:stall")
    page, killed = Page(), 0
    source = EventSource(client, f"/jobs/{job}/events")
    for event in source.events():
        page.take(event)
        if (killed, event.name) in ((0, "text"), (1, "status")):
            killed += 1
            gateway.restart()
        elif killed == 2 and event.name == "status":
            client.post(f"/jobs/{job}/cancel")
    assert killed == 2
    assert page.text == reader.text_of(shared.client, job)


def test_a_gateway_that_is_asked_to_stop_ends_its_streams(
    shared: Cluster, gateway: Gateway
) -> None:
    own = Gateway(shared.state, shared.environ)
    with own.client() as client:
        job = submitted(client, model="sim:stall")
        source = EventSource(client, f"/jobs/{job}/events")
        for event in source.once():
            if event.name == "text":
                began = time.monotonic()
                own.process.terminate()
                break
        wait_until("it has ended", lambda: own.process.poll() is not None, 10)
        assert own.process.returncode == 0
        assert time.monotonic() - began < 8
    with gateway.client() as client:
        client.post(f"/jobs/{job}/cancel")
    own.close()
