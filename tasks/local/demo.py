"""`make demo`: a real file is refactored, its worker is killed on the way, nothing is lost.

Everything is the product itself: a private Valkey, two workers, the command line's own display.
Only the provider is simulated, so that no key is needed, and so that the text the reader got can
be compared with the text that was sent.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import msgspec

from settings import load
from tasks import jobs
from tasks.cli.deliver import show_diff
from tasks.cli.sinks import PipeSink, Sink
from tasks.cli.terminal import TerminalSink
from tasks.current import use
from tasks.edits.answer import Answer
from tasks.edits.checks import check
from tasks.edits.source import SourceFile, read_sources
from tasks.local.daemon import Daemon
from tasks.local.stack import Stack, bare_environment, ledger
from tasks.splice import Splice

_ROOT = Path(__file__).parents[2]
#: A file of this repository, long enough to be interrupted.
_FILE = "worker/log/view.py"
_INSTRUCTION = "say in each docstring what is guaranteed"
#: The worker is killed when this share of the file has been written.
_KILL_AT = 0.4

#: Short leases keep the demo short; the defaults are 15 s and 5 s.
_ENVIRONMENT = {
    "LONGSTREAM_WORKER__LEASE_S": "3",
    "LONGSTREAM_WORKER__RENEW_S": "1",
    "LONGSTREAM_SIMULATOR_SPEED": "12",
}


def main() -> None:
    """Run the demo; exit 1 unless the reader's text is exactly what the simulator sent."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="longstream-demo-") as state:
        bare = bare_environment()
        os.environ.clear()
        os.environ.update(bare)
        os.environ.update(_ENVIRONMENT, LONGSTREAM_STATE_DIR=state)
        os.chdir(state)
        stack = Stack.default(_tell)
        second = Daemon(Path(state), "worker-2")
        try:
            exact = _run(stack, second)
        finally:
            second.stop(5)
            stack.down()
    _tell(f"done in {time.monotonic() - began:.0f} s")
    sys.exit(0 if exact else 1)


def _run(stack: Stack, second: Daemon) -> bool:
    settings = use(stack.ensure(load()))
    _tell("starting a second worker")
    environ = {**os.environ, "LONGSTREAM_REDIS_URL": stack.url}
    simulator = str(settings.pools["simulator"].keys[0].base_url)
    second.launch(
        [sys.executable, "-m", "tasks.cli", "worker"],
        environ | {"LONGSTREAM_SIMULATOR_URL": simulator},
    )
    _tell(f"refactoring {_FILE}; the answer is simulated, everything else is real")
    sources = read_sources([_ROOT / _FILE], _ROOT, settings.max_file_bytes)
    job_id = jobs.submit(
        "tasks.refactor", [msgspec.to_builtins(source) for source in sources], _INSTRUCTION
    )
    text = _follow(job_id, sources[0])
    _tell("the result, as a diff:")
    show_diff(check(sources, Answer(jobs.result(job_id)["files"]), _ROOT).changes)
    return _compare(job_id, text, simulator)


def _follow(job_id: str, source: SourceFile) -> str:
    """Show the job live, kill its worker on the way; the text a reader ends up with."""
    sink: Sink = TerminalSink(simulated=True) if sys.stdout.isatty() else PipeSink(sys.stdout)
    splice, killed = Splice(), False
    try:
        for item in jobs.tail(job_id):
            sink.take(item)
            if isinstance(item, jobs.Cut):
                splice.cut(item.offset)
            if isinstance(item, jobs.Text):
                splice.text(item.offset, item.text)
            if not killed and len(splice.shown) > _KILL_AT * len(source.text):
                killed = True
                sink.say(f"kill -9 {_kill_worker_of(job_id)}: the worker is gone in mid-stream")
        splice.end()
    finally:
        sink.close()
    return splice.shown


def _kill_worker_of(job_id: str) -> int:
    """SIGKILL the worker that runs the job; its process id, which its name begins with."""
    pid = int(jobs.status(job_id).worker.partition("@")[0].removeprefix("longstream-"))
    os.kill(pid, signal.SIGKILL)
    return pid


def _compare(job_id: str, text: str, simulator: str) -> bool:
    sent: set[Any] = {entry["visible"] for entry in ledger(simulator)}
    attempts = jobs.status(job_id).attempt
    exact = sent == {text} and attempts > 1
    verdict = "exactly what the simulator sent" if exact else "NOT what the simulator sent"
    _tell(f"{attempts} attempts, {len(text):,} characters read, {verdict}")
    return exact


def _tell(line: str) -> None:
    click.secho(f"demo: {line}", bold=True, err=True)


if __name__ == "__main__":
    main()
