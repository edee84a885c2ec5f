"""The parts of the gateway that need no server: streams, cursors of many, the story of a log."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from hypothesis import given, strategies as st
from starlette.requests import Request

from settings.errors import LongstreamError
from settings.model import GatewaySettings, Settings
from tasks.gateway.access import LOCAL, Grant
from tasks.gateway.frames import HEARTBEAT, RETRY, frame_of
from tasks.gateway.jobs import OPERATIONS
from tasks.gateway.many import Cursors, Many
from tasks.gateway.operations import Call
from tasks.gateway.page.diffs import changes_of
from tasks.gateway.page.rendering import brief, rendered
from tasks.gateway.page.story import story_of
from tasks.gateway.problems import Problem, problem_of
from tasks.gateway.responses import OPERATIONS as RESPONSES, Asked, ResponseEvents
from tasks.gateway.serving import needs_tokens
from tasks.gateway.shapes import Generate
from tasks.gateway.streams import HEARTBEAT_S, STALL_S, Awaiting, EventStream, Streams
from tests.harness.logs import LogMaker, restarted
from worker.errors import StoreRefused, UnknownJob
from worker.job.records import Record, State
from worker.log.cursor import START, Cursor, CursorError
from worker.log.entries import Mode, Tokens
from worker.log.hub import TooSlow
from worker.log.view import Cut, Status, Text


class Client:
    """The other end of one stream: what it was sent, and whether it takes any more."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.left = asyncio.Event()
        self.aborted = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.sent.append(message["body"])
            await self.takes.wait()

    async def receive(self) -> dict[str, str]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    def abort(self) -> None:
        self.aborted = True

    def scope(self) -> dict[str, Any]:
        return {"type": "http", "method": "GET", "state": {"abort": self.abort}}


async def endless(*chunks: bytes) -> AsyncGenerator[bytes, None]:
    for chunk in chunks:
        yield chunk
    await asyncio.Event().wait()


async def until(what: Any) -> None:
    async with asyncio.timeout(5):
        while not what():
            await asyncio.sleep(0)


async def test_a_client_that_vanishes_ends_its_stream() -> None:
    client, streams = Client(), Streams(10)
    stream = EventStream(streams, LOCAL, endless(b"one"))
    task = asyncio.create_task(stream(client.scope(), client.receive, client.send))
    await until(lambda: b"one" in client.sent)
    assert len(streams) == 1
    client.left.set()
    await asyncio.wait_for(task, 5)
    assert len(streams) == 0
    assert client.sent[0] == RETRY


async def test_a_client_that_takes_nothing_is_cut_off_after_a_while() -> None:
    client, streams = Client(), Streams(10)
    stream = EventStream(streams, LOCAL, endless(b"one", b"two"))
    client.takes.clear()
    task = asyncio.create_task(stream(client.scope(), client.receive, client.send))
    await until(lambda: client.sent)
    now = time.monotonic()
    assert not stream.stalled(now + STALL_S - 1)
    assert not stream.silent(now + STALL_S + 1)
    assert stream.stalled(now + STALL_S + 1)
    stream.abort()
    await asyncio.wait_for(task, 5)
    assert client.aborted
    assert len(streams) == 0


async def test_a_silent_stream_says_that_it_lives() -> None:
    client, streams = Client(), Streams(10)
    stream = EventStream(streams, LOCAL, endless(b"one"))
    task = asyncio.create_task(stream(client.scope(), client.receive, client.send))
    await until(lambda: b"one" in client.sent)
    now = time.monotonic()
    assert not stream.silent(now)
    assert stream.silent(now + HEARTBEAT_S)
    await stream.beat()
    assert client.sent[-1] == HEARTBEAT
    client.left.set()
    await asyncio.wait_for(task, 5)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (StoreRefused("ResponseError: WRONGTYPE"), "store_refused", 500),
        (redis.ResponseError("WRONGTYPE wrong kind of value"), "store_refused", 500),
        (redis.ResponseError("LOADING the dataset"), "store_unreachable", 503),
        (redis.exceptions.NoPermissionError("no"), "store_unreachable", 503),
        (redis.ConnectionError("gone"), "store_unreachable", 503),
        (UnknownJob("no job x"), "unknown_job", 404),
        (LongstreamError("the prompt is empty"), "invalid", 422),
    ],
)
def test_what_the_store_does_is_no_fault_of_the_request(
    error: Exception, code: str, status: int
) -> None:
    problem = problem_of(error)
    assert problem is not None
    assert (problem.code, problem.status) == (code, status)
    assert ("Retry-After" in problem.headers) == (status == 503)


def test_an_error_nobody_foresaw_is_no_problem_of_the_caller() -> None:
    assert problem_of(KeyError("x")) is None


async def test_a_stream_whose_token_is_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.gateway.streams._REVOKED_S", 0.01)
    client, streams = Client(), Streams(10)
    grant = Grant(name="over", scopes=frozenset())
    stream = EventStream(streams, grant, endless(b"one"))

    answers = iter([StoreRefused("WRONGTYPE"), set[str]()])

    async def valid(_: list[str]) -> set[str]:
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    watch = asyncio.create_task(streams.end_revoked(valid))
    await asyncio.wait_for(stream(client.scope(), client.receive, client.send), 5)
    assert not watch.done()
    watch.cancel()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_what_a_stream_was_given_is_closed_whether_or_not_it_was_read(method: str) -> None:
    client, streams, closed = Client(), Streams(10), asyncio.Event()

    async def close() -> None:
        closed.set()

    client.left.set()
    stream = EventStream(streams, LOCAL, endless(b"one"), close)
    await stream(client.scope() | {"method": method}, client.receive, client.send)
    assert closed.is_set()


async def test_what_nobody_foresaw_in_one_of_many_jobs_ends_the_stream_of_all() -> None:
    class Broken:
        def reader(self, job_id: str, *_: object, raw: bool) -> Broken:
            return self

        async def batches(self) -> AsyncGenerator[list[Any], None]:
            yield [("1-0", frame_of(Text(cursor="1-0", offset=0, text="one")))]
            raise RuntimeError("a bug")

    async def read(many: Many) -> None:
        async for _ in many.events():
            pass

    hub: Any = Broken()
    many = Many(hub, ["a", "b"], Cursors(["a", "b"], None), raw=False)
    async with asyncio.timeout(5):
        assert not await many.nothing_left()
        with pytest.raises(RuntimeError, match="a bug"):
            await read(many)
    await many.close()


async def test_a_key_that_another_request_took_in_the_meantime_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was not there a moment ago, and the job of the other is what the submit found."""
    told = {"submit": "id", "arguments": ("tasks.generate", ["theirs"], {})}
    for name, answer in told.items():
        monkeypatch.setattr(
            f"tasks.gateway.jobs.jobs.{name}", lambda *_, answer=answer, **__: answer
        )
    monkeypatch.setattr("tasks.gateway.jobs._exists", lambda _: False)
    scope = {"type": "http", "headers": [(b"idempotency-key", b"k")]}
    (submit,) = (each for each in OPERATIONS if each.method == "POST" and each.path == "/jobs")
    with pytest.raises(Problem, match="key_reused"):
        await submit.handler(Call(Request(scope), LOCAL, None, Generate(prompt="ours")))


async def test_there_is_room_for_so_many_and_none_while_it_stops() -> None:
    client, streams = Client(), Streams(1)
    streams.require_room()
    stream = EventStream(streams, LOCAL, endless())
    task = asyncio.create_task(stream(client.scope(), client.receive, client.send))
    await until(lambda: len(streams) == 1)
    with pytest.raises(Problem, match="too_many_readers"):
        streams.require_room()
    streams.stop()
    await asyncio.wait_for(task, 5)
    with pytest.raises(Problem, match="too_many_readers"):
        streams.require_room()


async def endless_reading() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["left", "cut"])
async def test_who_awaits_an_end_is_a_reader_until_it_leaves_or_is_cut(how: str) -> None:
    client, streams = Client(), Streams(1)
    awaiting = Awaiting(streams, LOCAL)
    task = asyncio.create_task(awaiting.end_of(endless_reading(), client.receive))
    await until(lambda: len(streams) == 1)
    with pytest.raises(Problem, match="too_many_readers"):
        streams.require_room()
    if how == "left":
        client.left.set()
    else:
        streams.stop()
    assert not await asyncio.wait_for(task, 5)
    assert (len(streams), awaiting.is_cut) == (0, how == "cut")


async def test_who_awaits_an_end_hears_what_went_wrong_on_the_way() -> None:
    async def broken() -> None:
        raise StoreRefused("WRONGTYPE")

    streams = Streams(1)
    with pytest.raises(StoreRefused):
        await Awaiting(streams, LOCAL).end_of(broken(), Client().receive)
    assert len(streams) == 0


class Lagging:
    """A hub whose first reader falls behind at 1-5, and whose next is at the end."""

    def __init__(self) -> None:
        self.starts: list[Cursor] = []

    def reader(self, _: str, start: Cursor) -> Lagging:
        self.starts.append(start)
        return self

    async def batches(self) -> AsyncGenerator[list[Any], None]:
        yield []
        if len(self.starts) == 1:
            raise TooSlow("1-5")


def awaited(monkeypatch: pytest.MonkeyPatch, hub: Any, client: Client, streams: Streams) -> Any:
    """A POST of a response that is awaited; of the job only its id is looked at."""
    record = SimpleNamespace(id="a")

    async def response_of(_: object) -> dict[str, str]:
        return {"status": "as it is"}

    monkeypatch.setattr("tasks.gateway.responses.jobs.submit", lambda *_, **__: "a")
    monkeypatch.setattr("tasks.gateway.responses.jobs.status", lambda _: record)
    monkeypatch.setattr("tasks.gateway.responses.response_of", response_of)
    state = SimpleNamespace(hub=hub, streams=streams)
    scope = {"type": "http", "headers": [], "app": SimpleNamespace(state=state)}
    (create,) = (each for each in RESPONSES if each.path == "/v1/responses")
    return create.handler(Call(Request(scope, client.receive), LOCAL, None, Asked(input="hello")))


async def test_an_awaited_response_reads_on_where_it_fell_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = Lagging()
    reply = await asyncio.wait_for(awaited(monkeypatch, hub, Client(), Streams(1)), 5)
    assert (reply.status_code, reply.body) == (200, b'{"status":"as it is"}')
    assert hub.starts == [START, Cursor(1, 5)]


async def test_an_awaited_response_whose_token_is_revoked_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Running:
        def reader(self, *_: object) -> Running:
            return self

        async def batches(self) -> AsyncGenerator[list[Any], None]:
            await asyncio.Event().wait()
            yield []

    streams = Streams(1)
    task = asyncio.create_task(awaited(monkeypatch, Running(), Client(), streams))
    await until(lambda: len(streams) == 1)
    monkeypatch.setattr("tasks.gateway.streams._REVOKED_S", 0.01)
    monkeypatch.setattr("tasks.gateway.streams.LOCAL", Grant(name="other", scopes=frozenset()))

    async def valid(_: list[str]) -> set[str]:
        return set()

    watch = asyncio.create_task(streams.end_revoked(valid))
    with pytest.raises(Problem, match="unauthorized"):
        await asyncio.wait_for(task, 5)
    watch.cancel()


async def test_no_job_is_made_of_a_response_that_nobody_has_room_to_await(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = awaited(monkeypatch, Lagging(), Client(), Streams(0))
    monkeypatch.setattr("tasks.gateway.responses.jobs.submit", None)
    with pytest.raises(Problem, match="too_many_readers"):
        await call


JOBS = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=5, unique=True)
AT = st.builds(Cursor, st.integers(1, 50), st.integers(0, 2**40))


@given(jobs=JOBS, at=st.data())
def test_one_cursor_stands_for_many(jobs: list[str], at: st.DataObject) -> None:
    cursors = Cursors(jobs, None)
    assert cursors.at == [START] * len(jobs)
    cursors.at = at.draw(st.lists(AT, min_size=len(jobs), max_size=len(jobs)))
    assert Cursors(jobs, str(cursors)).at == cursors.at
    for others in ([*jobs, "other"], ["other"] * len(jobs)):
        with pytest.raises(CursorError):
            Cursors(others, str(cursors))


@given(st.text(max_size=40))
def test_what_is_no_cursor_of_many_is_refused(text: str) -> None:
    try:
        assert Cursors(["a", "b"], text).at
    except CursorError:
        assert text != "0-0"


def test_only_what_moves_a_cursor_has_an_id() -> None:
    moving = frame_of(Text(cursor="1-7", offset=0, text="a\nb\r\n\u2028"))
    assert moving.whole.startswith(b"id: 1-7\nevent: text\ndata: {")
    assert moving.whole.count(b"\n") == 4
    assert b"\r" not in moving.whole
    assert not frame_of(Status(state="waiting")).whole.startswith(b"id")


def test_the_story_of_a_log_tells_what_was_replaced() -> None:
    story = story_of(restarted(["one ", "two"], ["three"]).log)
    assert story.text == "three"
    assert story.ended
    assert [chapter.cut for chapter in story.chapters] == [None, 0]
    assert story.cursor == Cursor(2, 2)


def test_the_story_of_a_log_that_goes_on_cuts_nothing() -> None:
    log = LogMaker()
    log.claim(Mode.START)
    log.say("one ")
    log.claim(Mode.CONTINUE)
    log.think(40)
    log.hand_back("draining")
    story = story_of(log.log)
    assert story.text == "one "
    assert [chapter.cut for chapter in story.chapters] == [None, None]
    assert story.thinking == 40
    assert story.chapters[1].notes == ["handed_back draining"]
    assert not story.ended


def test_the_page_of_a_job_knows_one_number_of_thinking() -> None:
    log = LogMaker()
    log.claim(Mode.START)
    log.think(40)
    log.say("one")
    job = Record(
        id="r",
        state=State.ENDED,
        task="t",
        model="m",
        pool="p",
        usage=Tokens(output=60, reasoning=57),
    )
    shown: dict[str, Any] = dict.fromkeys(("live", "simulated", "may_cancel", "waiting"), False)
    shown |= dict.fromkeys(("cost", "changes", "notes"), "")
    page = rendered("job.html", grant=LOCAL, job=job, story=story_of(log.log), **shown)
    counts = re.findall(r"(\d+)(?:</span> tokens)? of thinking", bytes(page.body).decode())
    assert counts == ["57", "57"]


def test_a_difference_says_what_each_line_is() -> None:
    files = [{"path": "a.py", "text": "one\ntwo\n"}, {"path": "b.py", "text": "same\n"}]
    (change,) = changes_of(files, {"files": {"a.py": "one\nthree\n"}})
    assert (change.path, change.added, change.removed) == ("a.py", 1, 1)
    assert [line.tag for line in change.lines] == ["span", "span", "del", "ins"]


@given(st.text())
def test_no_value_can_become_markup(text: str) -> None:
    page = rendered(
        "problem.html", grant=None, problem={"title": text, "detail": f"<script>{text}"}
    )
    body = bytes(page.body).decode("utf-8", "surrogatepass")
    assert "<script>" not in body.replace('<script src="/assets/page.js" defer></script>', "")


@pytest.mark.parametrize("made", ["263fb3e38170-{}", "5612c49893.{}", "{:032x}"])
def test_the_jobs_of_one_run_are_told_apart_in_a_narrow_column(made: str) -> None:
    told = {brief(made.format(number)) for number in range(1, 1_200)}
    assert len(told) == 1_199
    assert max(map(len, told)) <= 18


async def told(*items: Text | Cut) -> list[dict[str, Any]]:
    """The events of a response whose log says this."""
    record = Record(id="r", state=State.RUNNING, task="t", model="m", pool="p")
    batch = [(item.cursor, frame_of(item)) for item in items]
    chunks = await ResponseEvents(record, -1).of(batch)
    return [json.loads(chunk.split(b"data: ")[1]) for chunk in chunks]


async def test_a_response_that_comes_out_the_same_again_goes_on_without_a_seam() -> None:
    events = await told(
        Text(cursor="1-1", offset=0, text="one two"),
        Cut(cursor="2-0", offset=0),
        Text(cursor="2-1", offset=0, text="one "),
        Text(cursor="2-2", offset=4, text="two three"),
    )
    assert [event["delta"] for event in events] == ["one two", " three"]


async def test_a_response_that_comes_out_different_says_that_it_failed() -> None:
    events = await told(
        Text(cursor="1-1", offset=0, text="one two"),
        Cut(cursor="2-0", offset=4),
        Text(cursor="2-1", offset=4, text="three"),
        Text(cursor="2-2", offset=9, text="four"),
    )
    assert [event["type"] for event in events] == ["response.output_text.delta", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == "restarted"


@pytest.mark.parametrize(
    ("host", "tokens", "needed"),
    [
        ("127.0.0.1", None, False),
        ("::1", None, False),
        ("127.0.0.1", "always", True),
        ("0.0.0.0", None, True),
        ("::", None, True),
    ],
)
def test_callers_need_tokens_wherever_others_can_reach_the_gateway(
    host: str, tokens: Any, needed: bool
) -> None:
    gateway = GatewaySettings(tokens=tokens) if tokens else GatewaySettings()
    assert needs_tokens(Settings(gateway=gateway), host) is needed
