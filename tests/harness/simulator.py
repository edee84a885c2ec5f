"""The provider simulator as a real process, and a raw socket to talk to it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.harness.waiting import wait_until

CALL_S = 20.0


class Simulator:
    """One simulator process on a free port; at full speed unless told otherwise."""

    def __init__(self, *options: str, speed: str = "max") -> None:
        command = [sys.executable, "-m", "tasks.local.simulator", "--until-stdin-closes"]
        self.process = subprocess.Popen(
            [*command, "--speed", speed, *options],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.announced: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.url: str = self.announced["url"]
        place = urlsplit(self.url)
        assert place.hostname is not None
        self.place = (place.hostname, place.port)

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(CALL_S)
        self._close_pipes()
        return code

    def abandon(self) -> int:
        """Close its stdin, as the death of the process that started it would."""
        self._close_pipes()
        return self.process.wait(CALL_S)

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, CALL_S)

    def ask(self, path: str, body: object = None, secret: str | None = "k") -> socket.socket:
        """A connection on which the request has been written."""
        link = self.connect()
        link.sendall(request(path, body, secret))
        return link

    def call(self, path: str, body: object = None, secret: str | None = "k") -> Reply:
        """The whole answer to one request."""
        with self.ask(path, body, secret) as link:
            return read_reply(link)

    def entry(self, request_id: str) -> dict[str, Any]:
        """What the ledger says about a request."""
        found = self.call(f"/ledger/{request_id}")
        assert found.status == 200, found.body
        return found.json()

    def entry_once(self, request_id: str, field: str) -> dict[str, Any]:
        """The ledger's entry once `field` of it is true."""

        def settled() -> dict[str, Any] | None:
            entry = self.entry(request_id)
            return entry if entry[field] else None

        return wait_until(f"{field} of {request_id}", settled)


class Reply:
    """One answer, with the chunks of its body as they were framed.

    `complete`: the body ended as its framing promised; `reset`: it was ended by RST.
    """

    def __init__(self, head: bytes, chunks: list[bytes], *, complete: bool, reset: bool) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1])
        pairs = (line.partition(": ") for line in lines)
        self.headers = {name: value for name, _, value in pairs}
        self.chunks = chunks
        self.body = b"".join(chunks)
        self.complete = complete
        self.reset = reset

    @property
    def request_id(self) -> str:
        return self.headers["x-request-id"]

    def json(self) -> Any:
        return json.loads(self.body)


def request(path: str, body: object = None, secret: str | None = "k") -> bytes:
    """The bytes of a request: GET, or POST with a JSON body."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "host: simulator"]
    if secret is not None:
        lines.append(f"authorization: Bearer {secret}")
    if data:
        lines.append(f"content-length: {len(data)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def chat(prompt: str = "Say something.", model: str = "sim:plain", **more: Any) -> dict[str, Any]:
    """The body of a streamed chat request."""
    messages = [{"role": "user", "content": prompt}]
    return {"model": model, "stream": True, "messages": messages} | more


def read_reply(link: socket.socket) -> Reply:
    """Read one answer to its end, whichever way it ends."""
    source = Source(link)
    head = source.head()
    facts = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
    if "transfer-encoding" in facts:
        chunks, complete = source.chunks()
    elif "content-length" in facts or " 204 " in head.decode("latin-1"):
        size = int(facts.get("content-length", "0"))
        chunks = [source.up_to(size)]
        complete = len(chunks[0]) == size
    else:
        chunks, complete = [source.up_to(None)], not source.reset
    return Reply(head, chunks, complete=complete, reset=source.reset)


class Source:
    """The head, lines and counted bytes of an answer, from a socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._seen = bytearray()
        self.reset = False

    def head(self) -> bytes:
        while b"\r\n\r\n" not in self._seen:
            assert self._more(), f"the connection ended inside the head: {bytes(self._seen)!r}"
        head = bytes(self._seen[: self._seen.index(b"\r\n\r\n")])
        del self._seen[: len(head) + 4]
        return head

    def chunks(self) -> tuple[list[bytes], bool]:
        """Every chunk, and whether the last one came."""
        found: list[bytes] = []
        while (data := self.chunk()) is not None:
            if not data:
                return found, True
            found.append(data)
        return found, False

    def chunk(self) -> bytes | None:
        """The next chunk, or what arrived of it; None when none has begun."""
        line = self.line()
        if line is None:
            return None
        size = int(line, 16)
        data = self.up_to(size + 2)
        if not size and data != b"\r\n":
            return None
        return data[:size]

    def line(self) -> bytes | None:
        while b"\r\n" not in self._seen:
            if not self._more():
                return None
        line = bytes(self._seen[: self._seen.index(b"\r\n")])
        del self._seen[: len(line) + 2]
        return line

    def up_to(self, size: int | None) -> bytes:
        """So many bytes, or fewer when the connection ends before."""
        while (size is None or len(self._seen) < size) and self._more():
            pass
        data = bytes(self._seen[:size])
        del self._seen[: len(data)]
        return data

    def _more(self) -> bool:
        try:
            piece = self._link.recv(65_536)
        except ConnectionResetError:
            self.reset = True
            return False
        self._seen += piece
        return bool(piece)


def read_request_id(link: socket.socket) -> str:
    """The id of the answer that has begun on `link`."""
    head = Source(link).head()
    return head.split(b"x-request-id: ")[1].split(b"\r\n")[0].decode()
