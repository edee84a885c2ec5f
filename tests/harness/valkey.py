"""A real Valkey for tests, in a directory of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tasks.local import server


class Valkey:
    """One server process; `kill` and `start` again keep its data."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.url = f"unix://{server.socket_path(state)}"
        self.start()

    def start(self) -> None:
        self.process: subprocess.Popen[bytes] = server.launch(self.state)
        server.wait_until_up(self.url, self.process, self.state / "valkey.log")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
