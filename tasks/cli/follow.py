"""Following a job from the command line, and how it ends there."""

from __future__ import annotations

import sys
import time

import click

from settings.model import Settings
from tasks import jobs
from tasks.cli.prepare import say
from tasks.cli.sinks import JsonSink, PipeSink, Sink
from worker.log.status import NO_WORKER
from worker.log.view import End, Item, Status

#: Exit codes by outcome; what is not here has failed.
EXITS = {"completed": 0, "incomplete": 3, "filtered": 3, "cancelled": 4}
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

#: A worker that was just started may take this long to be heard of, in seconds.
_STARTING_S = 15.0


def sink_for(settings: Settings, *, json: bool, text_on_stdout: bool = True) -> Sink:
    """The sink that fits where the output goes. `text_on_stdout` False: stdout is for the result
    alone, and the live text is shown on stderr if a person is there."""
    if json:
        return JsonSink()
    shown_on = sys.stdout if text_on_stdout else sys.stderr
    if shown_on.isatty():
        from tasks.cli.terminal import TerminalSink

        return TerminalSink(shown_on, simulated=settings.simulated)
    return PipeSink(sys.stdout if text_on_stdout else None)


def follow(job_id: str, start: str, sink: Sink, *, raw: bool = False, again: str = "") -> End:
    """Follow to the end. Ctrl-C stops the following, not the job, and says how to go on."""
    cursor, began = start, time.monotonic()
    try:
        for item in jobs.tail(job_id, start, raw=raw):
            if isinstance(item, Item):
                cursor = item.cursor
            if isinstance(item, Status) and _starting(item, began):
                item = Status(state="waiting", detail="the worker is starting")
            sink.take(item)
            if isinstance(item, End):
                return item
    except KeyboardInterrupt:
        sink.close()
        say(f"job {job_id} runs on; go on reading with")
        click.echo(f"  longstream tail {job_id} --from {cursor}", err=True)
        if again:
            click.echo(f"  {again}", err=True)
        sys.exit(EXIT_INTERRUPTED)
    finally:
        sink.close()
    raise AssertionError("a followed job neither ended nor raised")


def conclude(end: End, settings: Settings, job_id: str) -> int:
    """Say how the job ended, on stderr; the exit code."""
    usage = end.usage
    parts = [f"job {job_id} {end.outcome}"]
    if end.reason:
        parts.append(end.reason)
    if usage is not None:
        parts.append(f"{usage.output:,} output tokens ({usage.reasoning:,} reasoning)")
    parts.append(f"{end.attempts} attempt{'s' if end.attempts > 1 else ''}")
    if settings.simulated:
        parts.append("simulated")
    say(", ".join(parts))
    return EXITS.get(end.outcome, EXIT_FAILED)


def _starting(item: Status, began: float) -> bool:
    return NO_WORKER in item.detail and time.monotonic() - began < _STARTING_S and _launched()


def _launched() -> bool:
    """True when the embedded stack has a worker process that was not heard of yet."""
    from tasks.local.stack import Stack

    return Stack.default().worker.pid() is not None
