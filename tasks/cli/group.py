"""The commands, their help, and how each ends: an exit code, and an error in one line."""

from __future__ import annotations

import errno
import importlib
import io
import sys

import click

from tasks.cli import exits
from tasks.cli.lean import lean_redis

#: Command name to one-line help; the module of the same name holds the command.
COMMANDS = {
    "refactor": "Change files as told; show a diff, or apply it.",
    "ask": "Answer a prompt.",
    "batch": "Answer a file of requests, in the form of the OpenAI Batch API.",
    "tail": "Follow a job from any point, live or late.",
    "jobs": "List jobs, newest first.",
    "show": "Show one job: its state, result and cost.",
    "cancel": "Cancel a job, waiting or running.",
    "spend": "Show what was spent, and what of it was wasted.",
    "cost": "Show what tokens cost, by model.",
    "verify": "Prove that a job's log is whole.",
    "queue": "Show who waits, for what, and until when.",
    "keys": "Show the accounts and their limits; check the API keys.",
    "doctor": "Check what would lose or stall jobs.",
    "bench": "Send many prompts, and report beside the published figures.",
    "chaos": "Break everything on purpose, and count what was lost.",
    "worker": "Run a worker in the foreground.",
    "serve": "Serve jobs and their live text over HTTP.",
    "token": "Make, list and revoke the tokens of the gateway.",
    "up": "Run the embedded stack in the foreground.",
    "down": "Stop the embedded stack.",
}

_EPILOG = """\b
Examples:
  longstream refactor app.py -m "use asyncio"              show a diff
  longstream refactor src/*.py -m "add type hints" --apply
  git diff | longstream ask - --system "Review this change."
  longstream ask "..." --detach                            print the job id and return
  longstream tail 3f9a --from 1-7                          go on reading behind entry 1-7

\b
Settings:
  OPENAI_API_KEY and OPENAI_BASE_URL, or HOLYSHEEP_API_KEY and HOLYSHEEP_BASE_URL
  LONGSTREAM_REDIS_URL      a Redis or Valkey to share with other machines
  LONGSTREAM_STATE_DIR      where the embedded stack keeps its data and logs
  longstream.toml           everything else; LONGSTREAM_CONFIG names another file

\b
Exit codes:
  0 completed   1 failed   2 usage   3 incomplete (stopped at a length or by a filter)
  4 cancelled   130 interrupted with Ctrl-C (a followed job runs on)
"""


#: Commands that run code of the user, which may use whatever is installed.
_WITH_USERS_CODE = frozenset({"worker", "serve"})

#: What an error that names no file is about.
_ABOUT = {
    errno.ENOSPC: "the output can not be written: ",
    errno.EFBIG: "the output can not be written: ",
}


class _Lazy(click.Group):
    """A group whose help loads no command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in _WITH_USERS_CODE:
            lean_redis()
        command = importlib.import_module(f"tasks.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            from difflib import get_close_matches

            if close := get_close_matches(args[0], COMMANDS):
                ctx.fail(f"no command {args[0]!r}, did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.version_option(package_name="longstream")
def cli() -> None:
    """Run long reasoning requests as background jobs, and keep every character once.

    Without a Redis configured, commands start a private server and a worker. Without an API key,
    answers come from a simulator and are marked as simulated.
    """


def run() -> int:
    """Run the command of this process's arguments; the exit code."""
    _speak_utf8()
    try:
        done = cli.main(prog_name="longstream", standalone_mode=False)
        return done if isinstance(done, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except SystemExit as done:
        if isinstance(done.code, str):
            click.echo(done.code, err=True)
            return exits.FAILED
        return done.code if done.code is not None else 0
    except click.Abort:
        return exits.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return exits.USAGE
    except click.ClickException as error:
        click.echo(f"longstream: {_in_one_line(error)}", err=True)
        return exits.USAGE
    except BrokenPipeError:
        raise
    except Exception as error:
        return _explained(error)


def _in_one_line(error: click.ClickException) -> str:
    said = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{said} ({context.command_path} --help)" if context is not None else said


def _speak_utf8() -> None:
    """A pipe gets UTF-8, whatever the locale; a terminal what it can show."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _of_redis(error: Exception) -> str:
    from redis.exceptions import OutOfMemoryError

    if isinstance(error, OutOfMemoryError):
        return "Redis is full: free memory or raise maxmemory, then run the command again"
    said = str(error).rstrip(".")
    return f"Redis failed: {said}; run the command again, or ask `longstream doctor`"


def _explained(error: Exception) -> int:
    """One line for what can be explained; what can not is a bug, and raised again."""
    from settings.errors import LongstreamError, SettingsError

    if isinstance(error, SettingsError):
        for problem in error.problems:
            click.echo(f"longstream: {problem}", err=True)
        return exits.USAGE
    if isinstance(error, LongstreamError):
        click.echo(f"longstream: {error}", err=True)
        return exits.FAILED
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else _ABOUT.get(error.errno or 0, "")
        click.echo(f"longstream: {where}{error.strerror or error}", err=True)
        return exits.FAILED
    if type(error).__module__.startswith("redis."):
        click.echo(f"longstream: {_of_redis(error)}", err=True)
        return exits.FAILED
    raise error
