"""nginx as most people run it: a `proxy_pass`, and every other setting at its default."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.waiting import wait_until

_CONFIG = """
daemon off;
pid {state}/nginx.pid;
error_log {state}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {state}/body;
  proxy_temp_path {state}/proxy;
  fastcgi_temp_path {state}/fastcgi;
  uwsgi_temp_path {state}/uwsgi;
  scgi_temp_path {state}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{upstream}; }}
  }}
}}
"""


class Nginx:
    """Skips the test, and says how to get one, where there is none."""

    def __init__(self, state: Path, upstream: int) -> None:
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
        if program is None:
            pytest.skip("no nginx here: apt-get install nginx-light, or `make tools`")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        config = state / "nginx.conf"
        config.write_text(_CONFIG.format(state=state, port=self.port, upstream=upstream))
        self._process = subprocess.Popen(
            [program, "-c", config, "-p", state, "-e", state / "error.log"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until("nginx listens", self._listens)

    def reload(self) -> None:
        """New workers take over; the old ones end when their connections do."""
        self._process.send_signal(signal.SIGHUP)

    def workers(self) -> set[int]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return {int(pid) for pid in children.read_text().split()}

    def kill_workers(self, workers: set[int]) -> None:
        """As `worker_shutdown_timeout` does with old ones."""
        import os

        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False
