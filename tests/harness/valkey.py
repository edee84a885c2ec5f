"""A real Valkey for tests, in a directory of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tasks.local import server
from tasks.local.daemon import Daemon
from tests.harness.waiting import wait_until


class Valkey:
    """One server process; `kill` and `start` again keep its data."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.url = f"unix://{server.socket_path(state)}"
        self.daemon = Daemon(state, "valkey")
        self.start()

    def start(self) -> None:
        server.launch(self.state, self.daemon)
        wait_until("Valkey answers", lambda: server.answers(self.url))

    def kill(self) -> None:
        pid = self.daemon.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert self.daemon.gone(10)

    def stop(self) -> None:
        assert self.daemon.stop(10)
