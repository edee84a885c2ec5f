"""What a provider's refusals do to a pool, on a real and on a fake store."""

from __future__ import annotations

import pytest

from settings.model import Account, Family
from tests.conftest import Store
from tests.harness.lines import KEYS, Line, key
from tests.harness.waiting import wait_until
from worker.admission import line as calls
from worker.admission.line import Held, Lease

HOUR_MS = 3_600_000


@pytest.fixture
def line(store: Store) -> Line:
    return Line(store.sync, {name: Account(name=name) for name in "ab"})


def alone(line: Line, **limits: object) -> Line:
    line.accounts = {"a": Account(name="a", **limits)}  # type: ignore[arg-type]
    return line


def rest(line: Line, name: str) -> float:
    """Milliseconds that something rests from now."""
    found = line.state(KEYS.rests, name)
    seconds, micros = line.client.time()
    return 0 if found is None else float(found["until"]) - (seconds * 1000 + micros / 1000)


def first(line: Line, job: str = "j", **ticket: object) -> Lease:
    line.submit(job, **ticket)
    return line.one()


def test_a_rate_limit_sends_the_job_to_another_key_at_once(line: Line) -> None:
    lease = first(line)
    assert line.refuse(lease, 429, {"retry-after": "20"}) == "back"
    (again,) = line.ask().leases
    assert (again.job_id, again.key != lease.key) == ("j", True)


def test_all_keys_at_rest_means_waiting_for_the_first_to_return(line: Line) -> None:
    for delay in ("20", "9"):
        line.submit("j")
        line.refuse(line.one(), 429, {"retry-after": delay})
    answer = line.ask()
    assert answer.leases == ()
    assert answer.sleep_ms is not None
    assert 8_000 < answer.sleep_ms < 9_600


def test_one_model_at_rest_leaves_the_others_alone(line: Line) -> None:
    alone(line)
    line.refuse(first(line, model="m1"), 429, {"retry-after": "20"})
    line.submit("other", model="m2")
    assert line.grant() == ["other"]


def test_a_limit_on_streams_makes_the_account_rest(line: Line) -> None:
    alone(line)
    line.refuse(first(line, model="m1"), 429, message="too many concurrent requests")
    line.submit("other", model="m2")
    assert line.grant() == []


def test_a_later_answer_without_a_delay_never_shortens_a_rest(line: Line) -> None:
    alone(line)
    line.submit("a", "b")
    one, two = line.ask().leases
    line.refuse(one, 429, {"retry-after": "30"})
    line.refuse(two, 429)
    assert rest(line, "model a m") > 29_000


def test_refusals_of_one_incident_are_one_strike(line: Line) -> None:
    alone(line)
    line.submit(*"abcdefgh")
    for lease in line.ask().leases:
        line.refuse(lease, 429)
    assert line.state(KEYS.rests, "model a m")["strikes"] == 1
    assert 1_000 < rest(line, "model a m") <= 2_100


def test_the_same_answer_told_twice_counts_once(line: Line) -> None:
    alone(line)
    lease = first(line)
    line.submit("other")
    line.refuse(lease, 429)
    line.refuse(lease, 429)
    assert line.state(KEYS.rests, "model a m")["strikes"] == 1


def age(line: Line, name: str, by_ms: int) -> None:
    """Let a rest have begun, and ended, earlier."""
    import json

    found = line.state(KEYS.rests, name)
    found["until"], found["since"] = found["until"] - by_ms, found["since"] - by_ms
    line.client.hset(KEYS.rests, name, json.dumps(found))


def test_strikes_lengthen_a_rest_the_provider_gave_no_time_for(line: Line) -> None:
    alone(line)
    lengths = []
    line.submit("j")
    for _ in range(4):
        line.refuse(line.one(), 429)
        lengths.append(rest(line, "model a m"))
        age(line, "model a m", 60_000)
    for length, expected in zip(lengths, (2_000, 4_000, 8_000, 16_000), strict=True):
        assert expected - 100 < length <= expected * 1.05


def reopened(line: Line, jobs: int = 200) -> None:
    """The account was refused, and its rest is just over."""
    alone(line)
    line.refuse(first(line), 429, {"retry-after": "20"})
    line.submit(*(f"n{number}" for number in range(jobs)))
    age(line, "model a m", int(rest(line, "model a m")) + 2)


def test_what_rested_reopens_with_one_stream_then_doubles_with_each_answer(line: Line) -> None:
    reopened(line)
    granted = []
    for _ in range(8):
        leases = line.ask().leases
        granted.append(len(leases))
        for lease in leases:
            line.settle(lease, 5, ending="answered")
    # Each answer doubles what is open; from 64 on it is open for all.
    assert granted[0] == 1
    assert granted[1:3] == [2, 8]
    assert sum(granted) == 201


def test_the_first_tokens_of_an_answer_are_enough_to_reopen(line: Line) -> None:
    reopened(line)
    (lease,) = line.ask().leases
    for produced, expected in ((0, 0), (40, 2), (90, 0)):
        held = [Held(lease, "a", produced)]
        call = calls.renew("p", "w1", held, slots=1, lease_ms=60_000, alive_ms=60_000)
        calls.run(line.client, call)
        assert len(line.ask().leases) == expected


def test_a_stream_that_ends_without_an_answer_opens_nothing_more(line: Line) -> None:
    reopened(line)
    for _ in range(4):
        (lease,) = line.ask().leases
        line.settle(lease, None)


def test_a_refusal_while_reopening_begins_anew(line: Line) -> None:
    reopened(line)
    line.settle(line.ask().leases[0], 5, ending="answered")
    one, two = line.ask().leases
    line.refuse(one, 429, {"retry-after": "20"})
    line.settle(two, 5, ending="answered")
    assert rest(line, "model a m") > 19_000
    age(line, "model a m", int(rest(line, "model a m")) + 2)
    assert len(line.ask().leases) == 1


def test_a_limit_of_the_day_rests_until_its_midnight(line: Line) -> None:
    alone(line, day_zone="UTC")
    line.refuse(first(line), 429, message="Rate limit reached for requests per day (RPD)")
    seconds, _ = line.client.time()
    left_ms = (86_400 - seconds % 86_400) * 1000
    assert left_ms - 5_000 < rest(line, "account a") < left_ms * 1.05 + 1


def test_no_credit_parks_the_account_and_moves_the_job(line: Line) -> None:
    lease = first(line)
    assert line.refuse(lease, 429, code="insufficient_quota") == "back"
    assert rest(line, f"account {lease.key}") > 0.9 * HOUR_MS
    (again,) = line.ask().leases
    assert again.key != lease.key


def test_a_bad_key_is_out_once_another_key_answered(line: Line) -> None:
    lease = first(line)
    assert line.refuse(lease, 401) == "back"
    (again,) = line.ask().leases
    assert again.key != lease.key
    line.settle(again, 10, ending="answered")
    assert rest(line, f"key {lease.key}") > 1_000 * HOUR_MS
    line.submit(*"uvw")
    assert {found.key for found in line.ask().leases} == {again.key}


def test_a_request_that_two_keys_refuse_is_at_fault_itself(line: Line) -> None:
    lease = first(line)
    line.refuse(lease, 403)
    assert line.refuse(line.one(), 403) == "fail"
    assert line.client.hgetall(KEYS.rests) == {}, "both keys are as good as before"
    assert not line.client.exists(KEYS.tickets)


def test_a_new_secret_is_used_at_once(line: Line) -> None:
    alone(line)
    line.keys = (key("k", "a", "old"),)
    assert line.refuse(first(line), 401) == "fail", "there is no other key to ask"
    line.submit("next")
    assert line.grant() == []
    line.keys = (key("k", "a", "new"),)
    assert line.grant() == ["next"]


def test_a_lone_key_is_not_put_out_for_what_may_be_the_request_s_fault(line: Line) -> None:
    alone(line)
    assert line.refuse(first(line), 403) == "fail"
    line.submit("next")
    assert line.grant() == ["next"]


def test_overload_rests_shorter_than_a_rate_limit(line: Line) -> None:
    alone(line)
    line.refuse(first(line), 529)
    assert 0 < rest(line, "model a m") <= 1_050


def test_overload_sends_a_job_back_but_not_for_ever(line: Line) -> None:
    alone(line)
    line.submit("j")
    verdicts = []
    for _ in range(31):
        line.client.delete(KEYS.rests, KEYS.buckets)
        verdicts.append(line.refuse(line.one(), 529))
        line.submit("j")
    # Then it costs attempts, like any failure of the provider.
    assert verdicts == ["back"] * 30 + ["tired"]


def test_retries_of_an_account_have_a_budget(line: Line) -> None:
    """A bad hour is not answered by a storm: fresh jobs go on, those sent back take turns."""
    alone(line)
    line.submit(*(f"j{number:02}" for number in range(30)))
    for lease in line.ask().leases:
        line.settle(lease, 0, back=True, ending="refused")
    line.submit("fresh")
    granted = line.grant()
    assert len(granted) == 11
    assert "fresh" in granted
    answer = line.ask()
    assert answer.sleep_ms == pytest.approx(1_000, abs=500)


def test_a_limit_found_to_be_lower_is_kept_to_and_grows_back(line: Line) -> None:
    alone(line, requests_per_minute=1000)
    line.refuse(first(line), 429, message="requests per minute exceeded")
    learned = line.state(KEYS.learned, "a")["requests"][0]
    assert learned == pytest.approx(900)


def test_the_limit_an_answer_names_is_kept_to(line: Line) -> None:
    alone(line, requests_per_minute=1000, tokens_per_minute=10**6)
    headers = {"x-ratelimit-limit-requests": "400", "x-ratelimit-limit-tokens": "2000000"}
    line.refuse(first(line), 429, headers)
    assert line.state(KEYS.learned, "a") == {"requests": [400, pytest.approx(1.8e12, rel=0.9)]}


@pytest.mark.parametrize(
    ("remaining", "granted"), [("0", 0), ("2", 2), ("70", 50), ("-1", 50), ("nan", 50)]
)
def test_what_remains_only_ever_tightens(line: Line, remaining: str, granted: int) -> None:
    alone(line, requests_per_minute=100, burst=0.5)
    lease = first(line)
    from worker.admission import answers
    from worker.upstream.limits import limits_in

    said = answers.hear(
        line.settings, lease, limits_in({"x-ratelimit-remaining-requests": remaining})
    )
    if said is not None:
        calls.run(line.client, said)
    line.submit(*(f"n{number}" for number in range(60)))
    assert len(line.grant()) == pytest.approx(granted, abs=2)


def test_an_older_answer_does_not_overrule_a_newer_one(line: Line) -> None:
    from worker.admission import answers
    from worker.upstream.limits import Limit, Limits

    alone(line, requests_per_minute=1000)
    old, new = first(line, "old"), first(line, "new")
    newer = answers.hear(line.settings, new, Limits((Limit("requests", 1000, 40),)))
    older = answers.hear(line.settings, old, Limits((Limit("requests", 1000, 0),)))
    assert newer is not None
    assert older is not None
    assert calls.run(line.client, newer) == [1]
    assert calls.run(line.client, older) == [0]


def test_a_family_of_models_learns_its_own_limit(line: Line) -> None:
    family = Family(models="big", requests_per_minute=100)
    alone(line, requests_per_minute=1000, families=(family,))
    line.refuse(first(line, model="big"), 429, message="requests per minute")
    assert list(line.client.hkeys(KEYS.learned)) == [b"a/big"]


def test_state_that_was_lost_begins_with_empty_buckets_and_adopts_what_runs(line: Line) -> None:
    alone(line, requests_per_minute=600, streams=5)
    lease = first(line)
    line.epoch = line.ask().epoch
    line.client.flushall()
    renew = calls.renew(
        "p", "w1", [Held(lease, "a")], slots=5, lease_ms=60_000, alive_ms=60_000, epoch=line.epoch
    )
    beat = calls.beat([Held(lease, "a")], calls.run(line.client, renew))
    assert beat.lost == ()
    assert beat.epoch != line.epoch
    assert line.streams() == {"a": 1}
    line.submit("next")
    answer = line.ask("w2")
    assert answer.leases == ()
    assert wait_until("the bucket fills", lambda: line.ask("w2").leases)
    assert line.settle(lease, 5, ending="answered")
    assert line.streams() == {"a": 1}


def test_a_fresh_system_begins_with_full_buckets(line: Line) -> None:
    alone(line, requests_per_minute=600)
    line.submit("j")
    assert line.grant() == ["j"]


def test_tokens_and_refusals_of_the_last_hour_are_counted(line: Line) -> None:
    alone(line)
    line.settle(first(line, "ok"), 700, ending="answered")
    line.refuse(first(line), 429)
    spent = {k.rpartition(b"|")[0]: v for k, v in line.client.hgetall(KEYS.spent).items()}
    assert spent == {b"a|tokens": b"700", b"a|refused": b"1"}
