"""A batch beside its jobs' records: what they wait for, and what they cost in all."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from settings.model import Pool, Settings
from settings.prices import Price
from tasks.batches.output import Output
from tasks.batches.running import Batch, Plan, Progress
from tests.conftest import Store
from tests.harness.lines import key
from worker.ledger.spending import Spending
from worker.log.entries import Tokens
from worker.log.status import NO_WORKER
from worker.log.view import Status

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY}


def test_a_batch_says_what_its_oldest_job_waits_for(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.batches.running._QUIET_S", 0.0)
    settings = Settings(pools={"p": Pool(name="p", keys=(key("a"),))})
    heard: list[Status] = []

    def explained(status: Status) -> Status:
        heard.append(status)
        return msgspec.structs.replace(status, detail=f"mended: {status.detail}")

    def step(progress: Progress) -> None:
        if progress.waits:
            raise KeyboardInterrupt

    with Output(tmp_path / "out.jsonl") as output:
        batch = Batch(store.sync, settings, output, Plan(), step, explained)
        with pytest.raises(KeyboardInterrupt):
            batch.run(io.BytesIO(json.dumps(LINE).encode()))

    assert [status.state for status in heard] == ["waiting"]
    assert batch.progress.waits == f"mended: {heard[0].detail}"
    assert NO_WORKER in batch.progress.waits


def test_what_was_thrown_away_counts_for_the_limit_of_the_next_run(
    store: Store, tmp_path: Path
) -> None:
    """The first of two attempts came to nothing; its output has the second alone."""
    prices = {"m": Price(input=0.0, output=1_000_000.0)}
    settings = Settings(pools={"p": Pool(name="p", keys=(key("a"),))}, prices=prices)

    def spent(number: int, tokens: int) -> bytes:
        used = Tokens(output=tokens)
        return msgspec.json.encode(Spending(attempt=number, at_ms=1, model="m", tokens=used))

    def step(progress: Progress) -> None:
        if not progress.in_flight:
            return
        (record,) = store.sync.keys("ls:{*}:job")
        ended = {"state": "ended", "outcome": "completed", "spent:1": spent(1, 3)}
        ended |= {"spent:2": spent(2, 4), "usage": b'{"output": 4}', "result": b'{"text": "hi"}'}
        store.sync.hset(record, mapping=ended)  # type: ignore[arg-type]

    asked = json.dumps(LINE).encode()
    with Output(tmp_path / "out.jsonl") as output:
        done = Batch(store.sync, settings, output, Plan(), step).run(io.BytesIO(asked))
        assert (done.cost.usd, output.lost_usd) == (7, 3)

    more = json.dumps(LINE | {"custom_id": "b"}).encode()
    with Output(tmp_path / "out.jsonl") as output:
        plan = Plan(max_cost=Decimal(7))
        batch = Batch(store.sync, settings, output, plan, step)
        done = batch.run(io.BytesIO(asked + b"\n" + more))
    assert done.held == "stopped at 7.0000 of 7 USD: raise --max-cost"
