"""Any order of claims, appends, lost replies, zombies, hand-backs, seals and failovers leaves in
the store what a plain model says, and every reader with the one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from copy import deepcopy
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.conftest import Store
from tests.harness.journal import AGES_S, Journal
from tests.harness.memory import applied
from tests.harness.model import ModelJob, ModelWriter, Refused
from worker.errors import Fenced
from worker.log import commit as commit_module, follow, reader
from worker.log.claim import Point
from worker.log.commit import GroupCommit
from worker.log.cursor import CursorError
from worker.log.verify import verify
from worker.log.view import Followed
from worker.log.writer import Writer

T = TypeVar("T")

POINT = msgspec.json.encode(Point("k", "resp_1", 7))
TEXTS = st.text(alphabet="abä🌍", min_size=1, max_size=4)


class Lossy(GroupCommit):
    """Carries out a batch and loses its replies, as often as told."""

    lose = 0

    def _replied(self, replies: list[Any] | None) -> None:
        if not self.lose:
            super()._replied(replies)
            return
        self.lose -= 1
        assert self._lane is not None
        self._lane.close(RedisConnectionError("the reply is lost"))


class Live:
    """A clean reader that is there from the start and reads whenever it is told to."""

    def __init__(self, store: Store, job_id: str) -> None:
        self._store = store
        self._steps = follow.follow(job_id)
        self._pending: Any = next(self._steps)
        self.had = ""
        #: A cursor that the log can not have any more was answered so.
        self.refused = False
        self.ended = False

    def read(self, *, to_the_end: bool = False) -> None:
        while not self.refused and not self.ended:
            if isinstance(self._pending, tuple):
                reply = self._execute(self._pending)
                if self._pending[0] == "XREAD" and not reply and not to_the_end:
                    return
            else:
                item: Followed = self._pending
                self.had, reply = applied([item], self.had), None
            try:
                self._pending = self._steps.send(reply)
            except StopIteration:
                self.ended = True
            except CursorError:
                self.refused = True

    def _execute(self, command: tuple[Any, ...]) -> Any:
        parts = [part for part in command if part not in ("BLOCK", follow.BLOCK_MS)]
        return self._store.sync.execute_command(*parts)


class Machine(RuleBasedStateMachine):
    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.store.sync.flushall()
        self.loop = asyncio.new_event_loop()
        self.writers: list[tuple[Writer, ModelWriter]] = []
        self.saved: tuple[Any, ...] | None = None
        self.rolled_back = False
        self.claims = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    @initialize(policy=st.sampled_from(["auto", "restart", "continue"]))
    def submit(self, policy: str) -> None:
        async def connected() -> Lossy:
            return Lossy(self.store.aio())

        self.commit = self.run(connected())
        self.job = Journal(self.store, self.commit, "modelled", policy)
        self.model = ModelJob(policy)
        self.live = Live(self.store, "modelled")

    @precondition(lambda self: self.model.state != "ended" and len(self.writers) < 6)
    @rule()
    def claim(self) -> None:
        """By a worker that found the job waiting, or its lease expired."""
        uid, self.claims = self.claims, self.claims + 1
        expected = self.model.claim(uid)
        assert expected is not None
        self.writers.append((self.run(self.job.writer(f"w{uid}")), expected))

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), text=TEXTS, rejoin=st.booleans(), lose=st.booleans())
    def append(self, data: st.DataObject, text: str, rejoin: bool, lose: bool) -> None:
        writer, expected = self._pick(data)
        self.commit.lose = int(lose)

        async def appending() -> None:
            writer.text(text)
            if rejoin:
                writer.resumable(POINT)
            await writer.flush()

        if self._writes(appending(), expected, text):
            self.model.rejoin = self.model.rejoin or rejoin
        else:
            self.writers.remove((writer, expected))

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), forget=st.booleans(), lose=st.booleans())
    def hand_back(self, data: st.DataObject, forget: bool, lose: bool) -> None:
        writer, expected = self._pick(data)
        self.commit.lose = int(lose)
        handing = writer.hand_back("handed_back", "drain", failure=False, forget=forget)
        if self._writes(handing, expected):
            self.model.state = "waiting" if self.model.state != "ended" else "ended"
            self.model.rejoin = self.model.rejoin and not forget
        self.writers.remove((writer, expected))

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), lose=st.booleans())
    def seal(self, data: st.DataObject, lose: bool) -> None:
        writer, expected = self._pick(data)
        self.commit.lose = int(lose)
        if self._writes(writer.seal("completed", ages_s=AGES_S), expected):
            self.model.state = "ended"
        self.writers.remove((writer, expected))

    @precondition(lambda self: self.model.log)
    @rule()
    def replicate(self) -> None:
        """A replica has everything up to here."""
        self.saved = (self.job.log(), self.job.record(), deepcopy(self.model))

    @precondition(lambda self: self.saved is not None)
    @rule()
    def fail_over(self) -> None:
        """The replica takes over; whoever wrote what it lacks may be dead or alive."""
        assert self.saved is not None
        log, record, model = self.saved
        if log:
            self.job.roll_back(log, record)
            self.model, self.rolled_back = deepcopy(model), True

    @rule()
    def read(self) -> None:
        self.live.read()
        if not self.rolled_back:
            assert self.live.had == self.model.text()

    @invariant()
    def the_log_is_the_models(self) -> None:
        if not hasattr(self, "model") or not self.model.log:
            return
        assert [each.at for each in self.job.log()] == [each.at for each in self.model.log]
        assert reader.text_of(self.store.sync, "modelled") == self.model.text()

    def teardown(self) -> None:
        if hasattr(self, "commit"):
            self._end()
            self.run(self.commit.close())
        self.loop.close()

    def _end(self) -> None:
        if self.model.state != "ended":
            expected = self.model.claim(-1)
            assert expected is not None
            last = self.run(self.job.writer("last"))
            self._writes(last.seal("completed", ages_s=AGES_S), expected)
        verdict = verify(self.job.log(), ended=True)
        assert not [finding for finding in verdict.findings if finding.clean]
        assert verdict.length == len(self.model.text())
        # Who has read a seal that was lost afterwards has gone home with what was true then.
        gone = self.rolled_back and self.live.ended
        self.live.read(to_the_end=True)
        assert gone or self.live.refused or self.live.had == self.model.text()
        assert self.rolled_back or (verdict.ok and not self.live.refused)

    def _pick(self, data: st.DataObject) -> tuple[Writer, ModelWriter]:
        return data.draw(st.sampled_from(self.writers), label="writer")

    def _writes(
        self, writing: Coroutine[Any, Any, None], expected: ModelWriter, text: str = ""
    ) -> bool:
        """Let both write; whether they could. They must agree."""
        entry = expected.next(text)
        try:
            self.model.write(expected, entry)
        except Refused:
            with pytest.raises(Fenced):
                self.run(writing)
            return False
        self.run(writing)
        return True


def play(store: Store, monkeypatch: pytest.MonkeyPatch, examples: int, steps: int) -> None:
    monkeypatch.setattr(commit_module, "_LONGEST_PAUSE_S", 0.0)
    machine = type("Job", (Machine,), {"store": store})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_any_order_of_events_leaves_the_one_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(store, monkeypatch, examples=25, steps=25)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_any_long_order_of_events_leaves_the_one_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(store, monkeypatch, examples=1000, steps=60)
