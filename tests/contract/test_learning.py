"""What is learned from a provider's answers alone, on a real and on a fake store."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from settings.model import Account
from tests.conftest import Store
from tests.harness.lines import KEYS, Line, key
from worker.admission import answers, line as calls, overview
from worker.admission.line import Lease
from worker.store.scripts import Script
from worker.upstream.failures import UpstreamFailure
from worker.upstream.limits import Limit, Limits, limits_in


@pytest.fixture
def line(store: Store) -> Line:
    return Line(store.sync, {name: Account(name=name) for name in "ab"})


def alone(line: Line, **limits: Any) -> Line:
    line.accounts = {"a": Account(name="a", **limits)}
    return line


def hear(line: Line, lease: Lease, limits: Limits) -> list[Any]:
    call = answers.hear(line.settings, lease, limits)
    assert call is not None
    said: list[Any] = calls.run(line.client, call)
    return said


def answered(line: Line, organisation: str, alias: str) -> list[Any]:
    """A key's job gets an answer that names the organisation."""
    job = f"for-{alias}-{organisation}"
    line.submit(job, sticky=alias)
    (lease,) = (found for found in line.ask().leases if found.job_id == job)
    said = hear(line, lease, Limits(organisation=organisation))
    line.settle(lease, 5, ending="answered")
    return said


def test_a_limit_nobody_configured_is_learned_from_a_header(line: Line) -> None:
    alone(line)
    line.submit("j")
    lease = line.one()
    hear(line, lease, Limits((Limit("requests", limit=40, remaining=39),)))
    line.submit(*(f"n{number}" for number in range(60)))
    assert len(line.grant()) == 2, "the burst of it, at once"
    (view,) = overview.accounts(line.client, line.settings)
    assert [(shown.dimension, shown.configured) for shown in view.limits] == [
        ("requests/min", None)
    ]
    assert view.limits[0].limit == pytest.approx(40, rel=1e-3)


def test_what_remains_of_a_lower_limit_is_not_taken_for_a_shortage(line: Line) -> None:
    alone(line, requests_per_minute=1000, burst=0.5)
    line.submit("j")
    hear(line, line.one(), Limits((Limit("requests", limit=400, remaining=399),)))
    line.submit(*(f"n{number:03}" for number in range(300)))
    # Half of 400 at once, less the one before.
    assert len(line.grant()) == pytest.approx(199, abs=2)


def test_a_limit_nobody_configured_is_learned_from_what_was_used_when_it_was_met(
    line: Line,
) -> None:
    alone(line)
    line.submit(*(f"j{number:03}" for number in range(120)))
    *_, last = line.ask().leases
    line.refuse(last, 429, {"retry-after-ms": "1"}, "requests per minute exceeded")
    assert line.state(KEYS.learned, "a")["requests"][0] == 119


def test_a_few_requests_that_were_refused_are_no_limit_a_minute(line: Line) -> None:
    """A provider may count seconds: what it gave within one says little of its minute."""
    alone(line)
    line.submit("j")
    line.refuse(line.one(), 429, message="requests per minute exceeded")
    assert line.state(KEYS.learned, "a")["requests"][0] == 60


def test_streams_nobody_limited_are_learned_too(line: Line) -> None:
    alone(line)
    line.submit(*(f"j{number}" for number in range(9)))
    *_, last = line.ask().leases
    line.refuse(last, 429, {"retry-after-ms": "1"}, "too many concurrent requests")
    assert line.state(KEYS.learned, "a")["streams"][0] == 8


def test_a_limit_configured_twice_too_high_is_found_at_its_first_refusal(line: Line) -> None:
    alone(line, requests_per_minute=1000, burst=0.5)
    line.submit(*(f"j{number:03}" for number in range(600)))
    *_, last = line.ask().leases
    line.refuse(last, 429, message="requests per minute exceeded")
    assert line.state(KEYS.learned, "a")["requests"][0] == 499


@pytest.mark.parametrize(
    "headers", [{"openai-organization": "org-1"}, {"anthropic-organization-id": "org-1"}]
)
def test_the_organisation_is_read_from_any_answer(headers: dict[str, str]) -> None:
    assert limits_in(headers) == Limits(organisation="org-1")
    assert limits_in(headers)
    assert not limits_in({"openai-processing-ms": "5"})


def test_accounts_of_one_organisation_share_the_limits_of_the_first(line: Line) -> None:
    line.accounts = {name: Account(name=name, streams=3) for name in "ab"}
    assert answered(line, "org-1", "a") == [1]
    assert answered(line, "org-1", "b") == [1, b"b", b"a"]
    assert answered(line, "org-1", "b") == [1], "it is news once"
    line.submit(*(f"j{number}" for number in range(9)))
    granted = line.ask().leases
    assert len(granted) == 3
    assert {lease.key for lease in granted} == {"a", "b"}
    assert line.streams() == {"a": 3}
    for lease in granted:
        line.settle(lease, 5, ending="answered")
    assert line.streams() == {}


async def test_a_merge_is_warned_of_whichever_answer_told_of_it(line: Line) -> None:
    answered(line, "org-1", "a")
    line.submit("j", sticky="b")
    lease = line.one()
    failure = UpstreamFailure(
        "slow down",
        kind="rate_limited",
        fault="provider",
        retryable=True,
        limits=Limits(organisation="org-1"),
    )

    class Direct:
        async def call(self, script: Script, keys: list[str], args: list[object]) -> object:
            return script.call(line.client, keys, args)

    with capture_logs() as logs:
        await answers.told(Direct(), line.settings, lease, failure)
    assert [(log["event"], log["account"], log["into"]) for log in logs] == [
        ("accounts.merged", "b", "a")
    ]


def test_merged_accounts_are_shown_with_the_way_out(line: Line) -> None:
    answered(line, "org-1", "a")
    answered(line, "org-1", "b")
    own, other = overview.accounts(line.client, line.settings)
    assert (own.account, own.keys, own.merged_into) == ("a", ("a", "b"), None)
    assert (other.account, other.keys, other.merged_into) == ("b", (), "a")


def test_accounts_of_two_organisations_stay_two(line: Line) -> None:
    line.accounts = {name: Account(name=name, streams=1) for name in "ab"}
    answered(line, "org-1", "a")
    answered(line, "org-2", "b")
    line.submit("x", "y", "z")
    assert len(line.ask().leases) == 2


def test_a_key_of_another_organisation_parts_accounts_again(line: Line) -> None:
    line.accounts = {name: Account(name=name, streams=1) for name in "ab"}
    answered(line, "org-1", "a")
    answered(line, "org-1", "b")
    answered(line, "org-2", "b")
    line.submit("x", "y", "z")
    assert len(line.ask().leases) == 2


def test_a_refusal_of_a_merged_key_rests_the_whole_organisation(line: Line) -> None:
    answered(line, "org-1", "a")
    answered(line, "org-1", "b")
    line.submit("j", sticky="b")
    line.refuse(line.one(), 429, {"retry-after": "20"})
    line.submit("next")
    assert line.grant() == []


def test_prompts_are_estimated_as_their_kind_turned_out(line: Line) -> None:
    alone(line)
    line.keys = (key("a"),)
    for number in range(40):
        line.submit(f"j{number}", prompt=1_000, cap=100)
        lease = line.one()
        spent = calls.Spent(calls.Tokens(input=600, output=100), "answered")
        calls.run(line.client, calls.settle(lease, back=False, spent=spent))
    line.submit("next", prompt=1_000, cap=100)
    line.one()
    assert 700 <= line.state(KEYS.held, "next")["tokens"] < 760


def test_an_estimate_holds_until_answers_say_otherwise(line: Line) -> None:
    alone(line)
    line.submit("j", prompt=1_000, cap=100)
    line.settle(line.one(), 0, back=True, ending="refused")
    line.one()
    assert line.state(KEYS.held, "j")["tokens"] == 1_100
