"""The routes of the simulator, and one task per connection.

`/v1/...` is the provider and wants a bearer credential, any but `invalid...`. `/ledger`,
`/bill` and `/health` are for tests and people. Every answer carries `x-request-id`; of generations
it is their id in the ledger too.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from tasks.local.simulator import failures
from tasks.local.simulator.ask import Ask, Refusal, parse_chat, parse_responses
from tasks.local.simulator.chat import completion_id
from tasks.local.simulator.ledger import Entry, Ledger, key_hash
from tasks.local.simulator.limits import Judge, LimitsFile
from tasks.local.simulator.performer import Performer
from tasks.local.simulator.retrieval import Responses
from tasks.local.simulator.scenarios import every, find
from tasks.local.simulator.steps import Script
from tasks.local.simulator.wire import BadRequest, Connection, Request, WatchedProtocol

#: More waiting clients than any test opens at once.
BACKLOG = 4_096

_GENERATIONS: dict[str, Callable[[bytes], Ask | Refusal]] = {
    "/v1/chat/completions": parse_chat,
    "/v1/responses": parse_responses,
}


class Simulator:
    """The server. `speed` divides every silence; 0 leaves none."""

    def __init__(self, *, speed: float = 1.0, limits: LimitsFile | None = None) -> None:
        self.ledger = Ledger()
        self._judge = Judge(limits)
        self._speed = speed
        self._responses = Responses(self.ledger, speed)
        self._streams: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Listen, and return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: WatchedProtocol(self._accept), host, port, backlog=BACKLOG
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening, and cut what still runs."""
        assert self._server is not None
        self._server.close()
        for task in self._streams:
            task.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        connection = Connection(reader, writer)
        try:
            with suppress(ConnectionError):
                await self._serve(connection)
        except asyncio.CancelledError:
            connection.reset()
        finally:
            self._streams.discard(task)

    async def _serve(self, connection: Connection) -> None:
        goes_on = True
        while goes_on:
            try:
                request = await connection.request()
            except BadRequest as error:
                await self._bad(connection, str(error))
                break
            if request is None:
                break
            connection.reusable = request.keeps_alive
            connection.takes_chunks = request.version != "HTTP/1.0"
            goes_on = await self._answer(connection, request)
        await connection.close()

    async def _bad(self, connection: Connection, problem: str) -> None:
        connection.reusable = False
        entry = _entry("", None)
        script = failures.failure(400, f"This is no HTTP request: {problem}.")
        await Performer(connection, entry, self._speed).perform(script)

    async def _answer(self, connection: Connection, request: Request) -> bool:
        entry = _entry(request.path, request.secret)
        generation = _GENERATIONS.get(request.path) if request.method == "POST" else None
        if generation is not None:
            self.ledger.open(entry)
            script = self._generation(request, entry, generation)
        else:
            script = self._route(request, entry)
        try:
            return await Performer(connection, entry, self._speed).perform(script)
        finally:
            self._judge.done(entry.id)

    def _generation(
        self, request: Request, entry: Entry, parse: Callable[[bytes], Ask | Refusal]
    ) -> Script:
        refused = _locked(request)
        if refused is not None:
            return refused
        ask = parse(request.body)
        if isinstance(ask, Refusal):
            return failures.refused(ask)
        scenario = find(ask.model)
        if scenario is None:
            return failures.no_model(ask.model)
        if not scenario.speaks(ask.dialect):
            return failures.wrong_dialect(ask.model)
        ask = msgspec.structs.replace(
            ask, nth=self.ledger.count(ask.seed), now=entry.arrived, query=request.query
        )
        answer = scenario.intended(ask)
        self.ledger.intend(entry, ask, answer.text)
        if ask.dialect == "chat":
            self.ledger.name(entry, completion_id(ask))
        if ask.dialect == "responses":
            self._responses.keep(ask, scenario, answer, entry)
        thinking = sum(burst.tokens for burst in answer.bursts)
        tokens = ask.prompt_tokens + len(answer.tokens) + thinking
        script = scenario.script(ask, answer)
        script = self._judge.judge(request.secret, entry.id, tokens, script)
        return self._responses.begun(ask, script) if ask.background else script

    def _route(self, request: Request, entry: Entry) -> Script:
        path = request.path.rstrip("/")
        if path.startswith("/v1/responses/"):
            return _locked(request) or self._response(request, entry)
        if request.method != "GET":
            return failures.no_path(request.method, request.path)
        if path == "/health":
            return self._health()
        if path == "/limits":
            return self._judge.report()
        if path == "/bill":
            return failures.body(msgspec.json.encode(self.ledger.bill()))
        if path == "/ledger" or path.startswith("/ledger/"):
            return self._ledger(path, request.parameters)
        if path == "/v1/generation":
            return _locked(request) or self._generated(request)
        if path == "/v1/models" or path.startswith("/v1/models/"):
            return _locked(request) or _models(path)
        return failures.no_path(request.method, request.path)

    def _response(self, request: Request, entry: Entry) -> Script:
        name, _, verb = request.path.removeprefix("/v1/responses/").partition("/")
        if request.method == "GET" and not verb:
            return self._responses.get(name, request.parameters, entry)
        if request.method == "POST" and verb == "cancel":
            return self._responses.cancel(name)
        return failures.no_path(request.method, request.path)

    def _generated(self, request: Request) -> Script:
        """What a chat answer used, once its stream is over, by the id it had."""
        name = request.parameters.get("id", "")
        entry = self.ledger.ended(name, key_hash(request.secret or ""))
        if entry is None:
            return failures.failure(404, f"No generation '{name}' has ended.")
        usage = entry.usage
        data = {
            "id": name,
            "model": entry.model,
            "native_tokens_prompt": usage.prompt_tokens,
            "native_tokens_completion": usage.completion_tokens,
            "native_tokens_reasoning": usage.reasoning_tokens,
            "native_tokens_cached": 0,
        }
        return failures.body(msgspec.json.encode({"data": data}))

    def _health(self) -> Script:
        open_connections = len(self._streams)
        seen = {"status": "ok", "connections": open_connections, "requests": len(self.ledger)}
        return failures.body(msgspec.json.encode(seen))

    def _ledger(self, path: str, parameters: dict[str, str]) -> Script:
        request_id = path.removeprefix("/ledger").lstrip("/")
        if "seed" in parameters:
            return failures.body(msgspec.json.encode(self.ledger.asked(parameters["seed"])))
        if not request_id:
            last = parameters.get("last", "")
            shown = self.ledger.views(int(last) if last.isdecimal() else None)
            return failures.body(msgspec.json.encode(shown))
        entry = self.ledger.get(request_id)
        if entry is None:
            return failures.failure(404, f"The ledger has no request '{request_id}'.")
        return failures.body(msgspec.json.encode(entry.view()))


def _entry(path: str, secret: str | None) -> Entry:
    request_id = f"req_{os.urandom(12).hex()}"
    key = key_hash(secret) if secret else ""
    return Entry(id=request_id, path=path, key=key, arrived=time.time())


def _locked(request: Request) -> Script | None:
    secret = request.secret
    if secret is None:
        return failures.no_key()
    return failures.wrong_key() if secret.startswith("invalid") else None


def _models(path: str) -> Script:
    name = path.removeprefix("/v1/models").lstrip("/")
    if not name:
        listed = [_model(known) for known in every()]
        return failures.body(msgspec.json.encode({"object": "list", "data": listed}))
    if find(name) is None:
        return failures.no_model(name)
    return failures.body(msgspec.json.encode(_model(name)))


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 1_767_225_600, "owned_by": "simulator"}
