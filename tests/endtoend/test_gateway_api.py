"""The API as its own description has it, tried against a running gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.harness.gateway import Gateway
from tests.harness.waiting import wait_until
from worker.outcomes import Outcome

JOB = {"kind": "generate", "prompt": "hello", "model": "sim:plain"}


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> Any:
    return schemathesis.openapi.from_url(f"{gateway.url}/openapi.json")


@pytest.mark.parametrize(
    "mode",
    [
        GenerationMode.POSITIVE,
        pytest.param(GenerationMode.NEGATIVE, marks=pytest.mark.slow),
    ],
)
def test_every_answer_is_one_that_is_described(api: Any, mode: GenerationMode) -> None:
    """What is sent is made of the description, right and wrong; what comes back is held to it."""
    tried = 0
    for found in api.get_all_operations():
        operation = found.ok()

        @settings(max_examples=10, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def answered(case: Any) -> None:
            # A schema does not know what a cursor or a path may be in this very log or tree.
            case.call_and_validate(timeout=20, excluded_checks=[positive_data_acceptance])

        try:
            answered()
            tried += 1
        except Unsatisfiable:
            # There is nothing in it that could be wrong.
            assert mode is GenerationMode.NEGATIVE
    assert tried >= (12 if mode is GenerationMode.POSITIVE else 4)


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


def ended(client: httpx.Client, job: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(f"/jobs/{job}").json()
        return found if found["state"] == "ended" else None

    found = wait_until("it ends", look)
    assert found is not None
    return found


def test_a_job_goes_from_submit_to_result(client: httpx.Client) -> None:
    made = client.post("/jobs", json=JOB)
    job = made.json()["id"]
    assert made.status_code == 201
    assert made.headers["location"] == f"/jobs/{job}"
    assert client.get(f"/jobs/{job}/result").status_code in (200, 409)
    found = ended(client, job)
    assert found["outcome"] == Outcome.COMPLETED
    result = client.get(f"/jobs/{job}/result").json()
    assert len(result["result"]) == found["length"]


def test_a_result_that_is_not_there_yet_is_told_so(client: httpx.Client) -> None:
    job = client.post("/jobs", json={**JOB, "model": "sim:stall"}).json()["id"]
    reply = client.get(f"/jobs/{job}/result")
    assert (reply.status_code, reply.json()["code"]) == (409, "not_ended")
    assert client.post(f"/jobs/{job}/cancel").status_code == 202
    assert ended(client, job)["outcome"] == Outcome.CANCELLED
    again = client.post(f"/jobs/{job}/cancel").json()
    assert again == {"id": job, "cancelled": "ended"}
    assert client.get(f"/jobs/{job}/result").json()["result"] is None


def test_the_same_idempotency_key_is_the_same_job(client: httpx.Client) -> None:
    key = {"Idempotency-Key": "7f3e"}
    first = client.post("/jobs", json=JOB, headers=key)
    again = client.post("/jobs", json=JOB, headers=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotency-replayed"] == "true"
    other = client.post("/jobs", json={**JOB, "prompt": "other"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")


def test_a_refactor_returns_its_files(client: httpx.Client) -> None:
    body = {
        "kind": "refactor",
        "files": [{"path": "app.py", "text": "print('hello')\n"}],
        "instruction": "use asyncio",
    }
    job = client.post("/jobs", json=body).json()["id"]
    assert ended(client, job)["outcome"] == Outcome.COMPLETED
    assert "app.py" in client.get(f"/jobs/{job}/result").json()["result"]["files"]


def test_pages_of_a_list_hold_every_job_once(client: httpx.Client) -> None:
    body = {**JOB, "tenant": "pages"}
    made = [client.post("/jobs", json=body).json()["id"] for _ in range(7)]
    seen: list[str] = []
    query = {"tenant": "pages", "limit": "3"}
    while True:
        page = client.get("/jobs", params=query).json()
        seen += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == made[::-1]
    for job in made:
        ended(client, job)
    for query, count in (
        ({"state": "ended"}, 7),
        ({"state": "waiting"}, 0),
        ({"outcome": "completed"}, 7),
        ({"outcome": "failed"}, 0),
        ({"model": "sim:plain", "priority": "normal", "task": "tasks.generate"}, 7),
    ):
        found = client.get("/jobs", params={"tenant": "pages", **query}).json()["jobs"]
        assert len(found) == count, query


def test_a_head_request_is_answered_without_a_body(client: httpx.Client) -> None:
    job = client.post("/jobs", json=JOB).json()["id"]
    for path in ("/jobs", f"/jobs/{job}", f"/jobs/{job}/events", "/", "/openapi.json"):
        reply = client.head(path)
        assert reply.status_code == 200
        assert reply.content == b""
