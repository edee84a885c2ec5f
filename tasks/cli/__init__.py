"""The command line, one file per command; each is imported only when it is called.

tasks.cli           the process: from its first line to its exit code; a traceback is a bug
tasks.cli.group     the commands and their help
tasks.cli.follow    how a job is shown: on a terminal, in a pipe, as JSON
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def main() -> None:
    """The console script. Ctrl-C is quiet from here on, so everything else is imported inside."""
    # What imports create stays; looking it through again and again costs a tenth of the start.
    gc.disable()
    sys.unraisablehook = _unraisable
    _open_what_is_closed()
    try:
        code = _written(_run())
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Whoever read the output is gone; there is nobody left to tell.
        code = 1
    if (tracing := sys.modules.get("worker.seeing.tracing")) is not None:
        tracing.flush()
    # Nothing is left to do, and taking the interpreter apart takes longer than many a command.
    os._exit(code)


def _open_what_is_closed() -> None:
    """Where `>&-` or a supervisor closed a stream, nothing is read and what is written is lost.
    The next socket would get its number, and be written to by whoever means that stream."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            stream = os.fdopen(number, "w" if number else "r", encoding="utf-8")
            setattr(sys, name, stream)


def _written(code: int) -> int:
    """The exit code, once everything that was said is out of this process."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Unless that is why the command failed, and was said then.
        if code == 0:
            sys.stderr.write(f"longstream: the output can not be written: {error.strerror}\n")
            code = 1
    sys.stderr.flush()
    return code


def _unraisable(lost: UnraisableHookArgs) -> None:
    """Ctrl-C that came where Python has nobody to raise it to comes again a moment later."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    import signal

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)


def _run() -> int:
    from tasks.cli.group import run

    return run()
