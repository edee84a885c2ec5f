"""What people and readers see of the line and its limits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from settings.model import Account, Family
from tests.conftest import Store
from tests.harness.lines import Line
from tests.harness.valkey import Valkey
from worker.admission import overview, waiting
from worker.admission.tickets import CLASSES
from worker.log import reader
from worker.log.view import Status
from worker.store.connections import connect
from worker.store.keys import job_keys

FAMILY = Family(models="big-*", tokens_per_minute=100_000)


@pytest.fixture
def line(store: Store) -> Line:
    limits = {"streams": 4, "requests_per_minute": 600, "tokens_per_minute": 100_000}
    return Line(
        store.sync,
        {
            "a": Account(name="a", requests_per_day=50, families=(FAMILY,), **limits),
            "b": Account(name="b"),
        },
    )


def test_an_account_shows_what_is_left_and_what_it_used(line: Line) -> None:
    line.accounts = {"a": line.accounts["a"]}
    line.submit("j", model="big-1", prompt=400)
    line.settle(line.one(), 700, ending="answered")
    line.submit("k", model="big-1", prompt=400)
    line.one()
    own, family = overview.accounts(line.client, line.settings)
    assert (own.account, own.keys, own.streams, own.streams_limit) == ("a", ("a",), 1, 4)
    assert (family.account, family.streams) == ("a/big-*", 1)
    left = {limit.dimension: limit.left / limit.limit for limit in own.limits}
    assert left["requests/day"] == 48 / 50
    assert left["requests/min"] == 598 / 600
    assert left["tokens/min"] == pytest.approx(1 - (700 + 400 + 1400) / 100_000)
    assert own.tokens_last_hour == 700


def test_what_rests_is_shown_with_its_cause_and_the_time_left(line: Line) -> None:
    line.submit("j", model="big-1")
    lease = line.one()
    line.refuse(lease, 429, {"retry-after": "20"}, "slow down, please")
    shown = [view for view in overview.accounts(line.client, line.settings) if view.rests]
    (rest,) = shown[0].rests
    assert rest.what == f"model {lease.key} big-1"
    assert "slow down, please" in rest.cause
    assert rest.left_s is not None
    assert 18 < rest.left_s < 22
    assert shown[0].refusals_last_hour == 1


def test_a_limit_that_was_learned_is_shown_beside_the_configured_one(line: Line) -> None:
    line.accounts = {"a": line.accounts["a"]}
    line.submit("j")
    line.refuse(line.one(), 429, message="requests per minute")
    own, _ = overview.accounts(line.client, line.settings)
    assert own.limits[0].limit == pytest.approx(540, rel=1e-3)
    assert own.limits[0].configured == 600


def test_a_key_that_is_enabled_is_used_again(line: Line) -> None:
    line.accounts = {"a": Account(name="a")}
    line.submit("j")
    line.refuse(line.one(), 401)
    line.submit("next")
    assert line.grant() == []
    (view,) = overview.accounts(line.client, line.settings)
    assert [(rest.what, rest.left_s) for rest in view.rests] == [("key a", None)]
    assert overview.enable(line.client, line.settings, "a")
    assert line.grant() == ["next"]
    assert not overview.enable(line.client, line.settings, "a")


@pytest.mark.parametrize("late", CLASSES)
def test_the_queue_is_shown_in_the_order_it_is_granted(line: Line, late: str) -> None:
    """Also when one class comes after others have had their turns."""
    line.accounts = {"b": Account(name="b")}

    def submit(*classes: str) -> None:
        for number in range(10):
            for name in classes:
                line.submit(f"{name}{number}", tenant=name, prompt=100, priority=name)

    submit(*(name for name in CLASSES if name != late))
    line.ask(slots=7)
    submit(late)
    (queue,) = waiting.queues(line.client, line.settings, 100)
    assert (queue.waiting, queue.running, queue.workers) == (23, 7, 1)
    assert [job.place for job in queue.first] == list(range(1, 24))
    assert line.grant() == [job.job for job in queue.first]


def test_the_queue_says_what_is_waited_for_and_when_it_starts(line: Line) -> None:
    line.accounts = {"a": Account(name="a", tokens_per_minute=100_000)}
    line.submit("first", "second", "third", prompt=4_000, cap=900)
    line.submit("later", wait_ms=30_000)
    line.ask()
    (queue,) = waiting.queues(line.client, line.settings, 10)
    second, third, later = queue.first
    assert second.waits_for == "tokens a minute of account a"
    assert second.starts_s == pytest.approx(3.1, abs=0.5)
    assert third.place == 2
    assert (later.job, later.place) == ("later", None)
    assert later.starts_s == pytest.approx(30, abs=1)


def test_a_line_without_workers_says_so(line: Line) -> None:
    line.submit("j")
    (queue,) = waiting.queues(line.client, line.settings, 10)
    assert queue.first[0].waits_for == "a worker: none is running"


def status(line: Line, job: str) -> Status:
    """The first thing a reader hears that is no entry."""
    line.client.hset(job_keys(job).record, mapping={"state": "waiting", "pool": "p"})
    items = reader.tail(line.client, job)
    return next(item for item in items if isinstance(item, Status))


def test_a_reader_of_a_waiting_job_hears_place_reason_and_expected_start(line: Line) -> None:
    line.accounts = {"a": Account(name="a", tokens_per_minute=100_000)}
    line.submit("first", "second", "third", prompt=4_000, cap=900)
    line.ask()
    heard = status(line, "third")
    assert (heard.state, heard.place) == ("waiting", 1)
    assert heard.reason == "tokens a minute of account a"
    assert heard.starts_ms is not None
    assert re.match(r"1 ahead of it; expected to start in [1-4] s; tokens a min", heard.detail)


def test_a_reader_hears_that_no_slot_is_free(line: Line) -> None:
    line.submit("running", "j")
    line.ask(slots=1)
    assert status(line, "j").reason == "all 1 slots of the workers are taken"


def test_an_expected_start_that_moves_is_no_news(line: Line) -> None:
    before = Status(state="waiting", place=1, reason="r", starts_ms=1, detail="in 2 s")
    assert not Status(state="waiting", place=1, reason="r", starts_ms=9, detail="in 1 s").changed(
        before
    )
    assert Status(state="waiting", place=0, reason="r").changed(before)
    assert Status(state="running", detail="on w").changed(before)


CONFIG = """
redis_url = "{url}"
[accounts.acme]
streams = 3
tokens_per_minute = 90_000
[[pools.p.keys]]
alias = "acme-1"
provider = "generic"
base_url = "http://127.0.0.1:1/v1"
secret = "sk-not-shown-anywhere"
account = "acme"
"""


def ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valkey: Valkey, *arguments: str
) -> tuple[int, str]:
    from tasks.cli.group import cli

    path = tmp_path / "longstream.toml"
    path.write_text(CONFIG.format(url=valkey.url))
    monkeypatch.setenv("LONGSTREAM_CONFIG", str(path))
    done = CliRunner().invoke(cli, arguments)
    assert "sk-not-shown" not in done.output
    return done.exit_code, done.output


def test_the_commands_show_accounts_and_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valkey: Valkey
) -> None:
    with connect(valkey.url) as client:
        client.flushall()
        line = Line(client, {"acme": Account(name="acme", streams=3)})
        line.submit("j1", "j2", "j3", "j4")
        line.ask()
    code, text = ask(tmp_path, monkeypatch, valkey, "keys")
    assert code == 0
    assert "acme (pool p; keys acme-1)" in text
    assert "streams: 3 of 3 in use" in text
    assert "tokens/min: 83,997 free of 90,000" in text
    view = json.loads(ask(tmp_path, monkeypatch, valkey, "keys", "--json")[1])
    assert (view["account"], view["streams"]) == ("acme", 3)

    assert "j4" in ask(tmp_path, monkeypatch, valkey, "queue")[1]
    queue = json.loads(ask(tmp_path, monkeypatch, valkey, "queue", "--json")[1])
    assert queue["first"][0]["waits_for"] == "streams of account acme"
    assert ask(tmp_path, monkeypatch, valkey, "keys", "enable", "acme-1") == (
        0,
        "acme-1 was not out of use\n",
    )
    code, _ = ask(tmp_path, monkeypatch, valkey, "keys", "enable", "nobody")
    assert code == 1
