"""The command line, one file per command; each is imported only when it is called.

tasks.cli           the group, exit codes, errors in one line
tasks.cli.follow    how a job is shown: on a terminal, in a pipe, as JSON
"""

from __future__ import annotations

import importlib
import sys

import click

EXIT_FAILED = 1
EXIT_USAGE = 2

#: Command name to one-line help; the module of the same name holds the command.
COMMANDS = {
    "refactor": "Change files as told; show a diff, or apply it.",
    "ask": "Answer a prompt.",
    "tail": "Follow a job from any point, live or late.",
    "jobs": "List jobs, newest first.",
    "show": "Show one job: its state, result and cost.",
    "cancel": "Cancel a job, waiting or running.",
    "verify": "Prove that a job's log is whole.",
    "keys": "Check the API keys.",
    "doctor": "Check what would lose or stall jobs.",
    "worker": "Run a worker in the foreground.",
    "up": "Run the embedded stack in the foreground.",
    "down": "Stop the embedded stack.",
}

_EPILOG = """\b
Examples:
  longstream refactor app.py -m "use asyncio"
  longstream refactor src/*.py -m "add type hints" --apply
  git diff | longstream ask -
  longstream tail 3f9a --from 1-7

\b
Exit codes:
  0 completed   1 failed   2 usage   3 incomplete (stopped at a length or by a filter)
  4 cancelled   130 interrupted with Ctrl-C (a followed job runs on)
"""


class _Lazy(click.Group):
    """A group whose help loads no command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"tasks.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

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


def main() -> None:
    """The console script."""
    from settings.errors import LongstreamError, SettingsError

    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except SettingsError as error:
        for problem in error.problems:
            click.echo(f"longstream: {problem}", err=True)
        sys.exit(EXIT_USAGE)
    except LongstreamError as error:
        click.echo(f"longstream: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output is gone; there is nobody left to tell.
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
