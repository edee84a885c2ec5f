"""A gateway as a process, and a client that reads events the way a browser does."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.harness.cluster import ROOT
from tests.harness.waiting import wait_until

#: Bytes of a body that the tests' gateway takes.
BODY_LIMIT = 200_000

_SERVE = ("-m", "tasks.cli", "serve")


class Gateway:
    """`longstream serve` on a port that stays the same when it is started again."""

    def __init__(self, state: Path, environ: Mapping[str, str], *arguments: str) -> None:
        self.state = state
        self.log = state / "gateway.log"
        self._environ = {**environ, "PYTHONPATH": str(ROOT)}
        self._arguments = arguments
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *_SERVE, "--port", str(self.port), *self._arguments],
                cwd=self.state,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until("the gateway answers", self._answers, 30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self, within_s: float = 15) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=20, **options)

    def rss_bytes(self) -> int:
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    def files(self) -> int:
        """How many it has open, connections included."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@dataclass(slots=True)
class Event:
    """One event as an EventSource dispatches it."""

    name: str
    data: Any
    #: The last event id after it.
    last_id: str
    at: float = field(default_factory=time.monotonic)


class EventSource:
    """Connects again with the last id it had, until it is told not to."""

    def __init__(
        self,
        client: httpx.Client,
        path: str,
        *,
        last_id: str = "",
        params: dict[str, str] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._params = params
        self.last_id = last_id
        self.connections = 0
        self.comments: list[str] = []
        self.retry_ms: int | None = None
        #: The status that ended it.
        self.status = 0

    def events(self, upto: Callable[[Event], bool] = lambda _: False) -> Iterator[Event]:
        """Until `upto` says so, or the server says that there is nothing left."""
        while True:
            try:
                for event in self._connected():
                    yield event
                    if upto(event):
                        return
            except httpx.TransportError:
                pass
            if self.status != 200:
                return
            time.sleep(0.05)

    def once(self) -> Iterator[Event]:
        """The events of one connection."""
        return self._connected()

    def _connected(self) -> Iterator[Event]:
        headers = {"Accept": "text/event-stream"}
        if self.last_id:
            headers["Last-Event-ID"] = self.last_id
        with self._client.stream("GET", self._path, headers=headers, params=self._params) as reply:
            self.connections += 1
            self.status = reply.status_code
            if reply.status_code == 200:
                assert reply.headers["content-type"] == "text/event-stream"
                yield from self._dispatched(reply.iter_lines())

    def _dispatched(self, lines: Iterator[str]) -> Iterator[Event]:
        name, data, last_id = "", [], self.last_id
        for line in lines:
            kind, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                self.last_id = last_id
                if data:
                    yield Event(name or "message", json.loads("\n".join(data)), last_id)
                name, data = "", []
            elif not kind:
                self.comments.append(value)
            elif kind == "event":
                name = value
            elif kind == "data":
                data.append(value)
            elif kind == "id":
                last_id = value
            elif kind == "retry":
                self.retry_ms = int(value)


class Page:
    """The text of a clean reader, from events."""

    def __init__(self) -> None:
        self.text = ""
        self.end: dict[str, Any] | None = None

    def take(self, event: Event) -> None:
        if event.name == "text":
            assert event.data["offset"] == len(self.text), "a hole or a repeat"
            self.text += event.data["text"]
        elif event.name == "cut":
            self.text = self.text[: event.data["offset"]]
        elif event.name == "end":
            self.end = event.data
