"""A primary and a replica behind one address, and the fail-over from one to the other."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import redis

from tasks.local import server
from tasks.local.chaos.proxy import Proxy
from tests.harness.waiting import wait_until
from worker.store.connections import connect


class Pair:
    """`url` is the address clients use; `fail_over` moves it. `close` ends both servers."""

    def __init__(self, state: Path) -> None:
        self._servers: list[subprocess.Popen[bytes]] = []
        self.primary, self._primary_port = self._start(state / "primary")
        self.replica, port = self._start(state / "replica")
        self.replica.replicaof("127.0.0.1", str(self._primary_port))
        self._replica_port = port
        wait_until("the replica follows", self._follows)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._address = Proxy(self._primary_port)
        self.url = f"redis://127.0.0.1:{self._run(self._address.open())}/0"

    def cut(self) -> None:
        """From now on the replica lacks what is written."""
        self.replica.replicaof("NO", "ONE")

    def fail_over(self) -> None:
        """The primary dies, and the address is the replica's."""
        self._servers[0].kill()
        self._servers[0].wait()

        async def move() -> None:
            self._address.target = self._replica_port
            self._address.reset()

        self._run(move())

    def close(self) -> None:
        self._run(self._address.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for client in (self.primary, self.replica):
            client.close()
        for process in self._servers:
            process.kill()
            process.wait()

    def _follows(self) -> bool:
        info: Any = self.replica.info("replication")
        return bool(info["master_link_status"] == "up")

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def _start(self, data: Path) -> tuple[redis.Redis, int]:
        data.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(data), "--save", ""]
        with (data / "log").open("ab") as log:
            process = subprocess.Popen(
                [server.find_server(), *options, "--repl-diskless-sync-delay", "0"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._servers.append(process)
        url = f"redis://127.0.0.1:{port}/0"
        wait_until("the server answers", lambda: server.answers(url))
        return connect(url), port
