"""Following a job from the command line, and how it ends there."""

from __future__ import annotations

import gc
import os
import signal
import sys

import click

from settings.errors import LongstreamError
from tasks import jobs
from tasks.cli import exits
from tasks.cli.embedded import Embedded
from tasks.cli.interrupts import Interrupts
from tasks.cli.listing import counted
from tasks.cli.prepare import say
from tasks.cli.sinks import JsonSink, PipeSink, Sink
from tasks.current import current
from worker.log.view import End, Followed, Item, Status


def sink_for(*, json: bool, simulated: bool, text_on_stdout: bool = True) -> Sink:
    """The sink that fits where the output goes. `text_on_stdout` False: stdout is for the result
    alone, and the live text is shown on stderr if a person is there."""
    if json:
        return JsonSink()
    shown_on = sys.stdout if text_on_stdout else sys.stderr
    if shown_on.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from tasks.cli.terminal import TerminalSink

        return TerminalSink(shown_on, simulated=simulated)
    return PipeSink(sys.stdout if text_on_stdout else None)


def follow(job_id: str, start: str, sink: Sink, *, raw: bool = False, again: str = "") -> End:
    """Follow to the end. Ctrl-C stops the following, not the job, and says how to go on."""
    cursor, interrupts = start, Interrupts()
    # What was loaded stays: a look through it takes 18 ms.
    gc.freeze()
    gc.enable()
    try:
        here = Embedded.of(current())
        with interrupts.handled():
            for item in jobs.tail(job_id, start, raw=raw):
                seen = here.explained(item) if here and isinstance(item, Status) else item
                with interrupts.step():
                    _take(sink, seen, job_id, cursor)
                    if isinstance(item, Item):
                        cursor = item.cursor
                if isinstance(item, End):
                    return item
    except KeyboardInterrupt:
        # Impatience must not cost the command that goes on.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sink.close()
        more = " --raw" * raw + sink.options
        say(f"job {job_id} runs on; go on reading with")
        click.echo(f"  longstream tail {job_id} --from {cursor}{more}", err=True)
        if again:
            click.echo(f"  {again}", err=True)
        sys.exit(exits.INTERRUPTED)
    finally:
        sink.close()
    raise AssertionError("a followed job neither ended nor raised")


def _take(sink: Sink, item: Followed, job_id: str, cursor: str) -> None:
    """Raises LongstreamError when the output takes no more; the job is none the worse for it."""
    try:
        sink.take(item)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LongstreamError(
            f"the output can not be written: {error.strerror}; job {job_id} runs on: "
            f"longstream tail {job_id} --from {cursor}"
        ) from error


def conclude(end: End, job_id: str, *, simulated: bool) -> int:
    """Say how the job ended, on stderr; the exit code."""
    usage = end.usage
    parts = [f"job {job_id} {end.outcome}"]
    if end.reason and end.reason != end.outcome:
        parts.append(end.reason)
    if usage is not None:
        parts.append(f"{usage.output:,} output tokens ({usage.reasoning:,} reasoning)")
    parts.append(counted(end.attempts, "attempt"))
    if simulated:
        parts.append("simulated")
    say(", ".join(parts))
    if hint := _hint(end.reason, job_id):
        say(hint)
    return exits.OUTCOMES.get(end.outcome, exits.FAILED)


def _hint(reason: str, job_id: str) -> str:
    """What to do about a failure that the user can mend."""
    if "answered 401" in reason or "answered 403" in reason:
        key = jobs.status(job_id).key
        return f"key {key} was refused: correct it, then `longstream keys check`"
    if "answered 404" in reason and "longstream keys check" not in reason:
        return "`longstream keys check --json` lists the models each key can use"
    return ""
