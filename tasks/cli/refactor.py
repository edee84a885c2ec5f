"""`longstream refactor`: files and an instruction in, changes out: shown, written, on a branch."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tasks.cli import exits
from tasks.cli.ask import EFFORTS
from tasks.cli.terms import Asked, named, with_terms

if TYPE_CHECKING:
    import redis

    from settings.model import Settings
    from tasks.runs.begin import Found
    from tasks.runs.plan import Plan
    from tasks.runs.record import Delivery

_EPILOG = """\b
Examples:
  longstream refactor app.py -m "use asyncio"
  longstream refactor src/ "tests/**/*.py" -m "add type hints" --apply
  longstream refactor src/ -m "add type hints" --each --check "pytest -q" --branch typed
  longstream refactor app.py -m "use asyncio" | git apply
  longstream refactor src/ -m "..." --yes --detach          print the run's id and return
  longstream refactor --resume 3f9a --apply                 deliver that run, now or later

\b
Exit codes:
  0 delivered   1 failed, or a file was refused   2 usage   3 incomplete   4 cancelled
  130 Ctrl-C
"""


@click.command(epilog=_EPILOG)
@click.argument("files", nargs=-1, type=click.Path())
@click.option("-m", "--message", "instruction", default="", help="What to change.")
@click.option("--each", is_flag=True, help="One job for each file; else related files go together.")
@click.option("-y", "--yes", is_flag=True, help="Send without asking.")
@click.option("--diff", is_flag=True, help="Show a diff (default).")
@click.option("--apply", is_flag=True, help="Write each file over its original once it is ready.")
@click.option(
    "--out", metavar="DIR", callback=named, type=click.Path(), help="Write changed files below DIR."
)
@click.option(
    "--patch",
    metavar="FILE",
    callback=named,
    type=click.Path(),
    help="Write one patch for `git apply`.",
)
@click.option(
    "--branch",
    metavar="NAME",
    callback=named,
    help="Commit on a new branch; touch nothing else.",
)
@click.option("--check", metavar="CMD", default="", help="Keep only what CMD succeeds with.")
@click.option(
    "--check-timeout",
    "check_s",
    metavar="SECONDS",
    default=600.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="How long CMD may take.",
)
@click.option("--force", is_flag=True, help="Take Python that does not compile, too.")
@click.option("--model", default="", callback=named, help="The model; default: the settings'.")
@click.option("--effort", type=click.Choice(EFFORTS), help="Reasoning effort; default: low.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and to which model.")
@click.option(
    "--resume", "run", metavar="RUN", callback=named, help="A run, or a job, submitted before."
)
@with_terms
@click.option("--detach", is_flag=True, help="Print the run's id and return.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    files: Sequence[str],
    instruction: str,
    each: bool,
    yes: bool,
    dry_run: bool,
    run: str | None,
    detach: bool,
    as_json: bool,
    model: str,
    effort: str | None,
    asked: Asked,
    **delivery: Any,
) -> None:
    """Change FILES as the message says, and show what changes as a diff.

    FILES are files, directories and patterns; what git ignores in them is left out, and so is what
    begins with a dot or may hold secrets. On a terminal you see what will be sent and are asked
    once. Files are sent whole, and related ones together, as far as they fit.

    Nothing is written unless you say so. A file is written only if it is still what was sent, and
    Python only if it compiles. With --check, CMD runs in a copy of the tree that has the changes
    of a job, or if that fails, one file of it more than what passed before. Each file is judged for
    itself: one that is refused is named with the reason, and the exit code is 1.

    In a pipe, stdout holds the diff alone, as `git apply` takes it. Ctrl-C leaves everything
    running and prints how to go on; a file is never written twice.
    """
    from tasks.cli.prepare import prepare, say
    from tasks.stored import store

    wanted = _wanted(delivery)
    if run is not None and (files or instruction or each or asked.given):
        raise click.UsageError("--resume takes a run alone: its files and message are known")
    plan = None if run is not None else _plan(files, instruction, model, effort, each)
    if plan is not None and not _agreed(plan, wanted, yes=yes, dry_run=dry_run):
        sys.exit(0 if dry_run else exits.FAILED)
    settings = prepare(serving=plan is not None)
    with store() as client:
        if plan is not None:
            found = _begun(client, plan, instruction, effort, wanted, asked, settings)
            root = plan.root
        else:
            found, root = _resumed(client, str(run))
    how = found.run.delivery if wanted is None else wanted
    again = f"longstream refactor --resume {found.run.id}{_typed(how)}{' --json' * as_json}"
    if detach:
        click.echo(found.run.id)
        say(f"deliver it with: {again}")
        return

    # After the submit: the worker begins while this is loaded.
    from tasks import jobs
    from tasks.cli.run import follow_run

    live = next(job.id for job in found.run.jobs if job.id not in found.lost)
    simulated = jobs.simulated(live)
    sys.exit(follow_run(found, root, how, again=again, as_objects=as_json, simulated=simulated))


_WAYS = ("diff", "apply", "out", "patch", "branch")


def _wanted(given: dict[str, Any]) -> Delivery | None:
    """What to do with the changes; None when nothing was said about it."""
    from tasks.runs.record import Delivery

    ways: list[Any] = [way for way in _WAYS if given[way]]
    if len(ways) > 1:
        raise click.UsageError(f"--{' and --'.join(ways)}: choose one of them")
    if not (ways or given["force"] or given["check"]):
        return None
    how: Any = ways[0] if ways else "diff"
    place = given[how] if isinstance(given[how], str) else ""
    to = str(Path(place).absolute()) if how in ("out", "patch") else place
    return Delivery(
        how=how, to=to, force=given["force"], check=given["check"], check_s=given["check_s"]
    )


def _typed(delivery: Delivery) -> str:
    """The options of the delivery, as they are typed."""
    way = f" --{delivery.how}" if delivery.how != "diff" else ""
    way += f" {shlex.quote(delivery.to)}" if delivery.to else ""
    way += " --force" if delivery.force else ""
    if delivery.check:
        way += f" --check {shlex.quote(delivery.check)} --check-timeout {delivery.check_s:g}"
    return way


def _plan(
    files: Sequence[str], instruction: str, model: str, effort: str | None, each: bool
) -> Plan:
    """What is to be sent."""
    from settings import load
    from tasks.cli.prepare import utf8
    from tasks.edits.source import SourceError
    from tasks.runs.plan import answered, plan_run

    if not files:
        raise click.UsageError('no files: longstream refactor FILE... -m "what to change"')
    if not instruction.strip():
        raise click.UsageError('the instruction is empty: say what to change with -m "..."')
    utf8("instruction", instruction)
    settings = load()
    try:
        plan = plan_run(files, instruction, settings, model=model, each=each)
    except SourceError as error:
        for problem in error.problems:
            click.echo(f"longstream: {problem}", err=True)
        sys.exit(exits.USAGE)
    return answered(plan, instruction, effort, settings)


def _agreed(plan: Plan, wanted: Delivery | None, *, yes: bool, dry_run: bool) -> bool:
    """Whether to send it; the user may say no, or only want to see."""
    from settings import load

    if wanted is not None and not dry_run:
        _check_first(plan, wanted)
    if plan.chosen is not None:
        from tasks.cli.prepare import say
        from tasks.cli.routes import told

        say(told(plan.chosen, load()))
    if dry_run:
        from tasks.cli.preview import preview

        preview(plan, load())
        return False
    if len(plan.files) == 1 and not plan.left_out:
        return True
    from tasks.cli.preview import confirmed

    return confirmed(plan, load(), yes=yes)


def _check_first(plan: Plan, wanted: Delivery) -> None:
    """What can not work later is said before anything is sent and paid for."""
    if wanted.how in ("patch", "out"):
        from tasks.edits.disk import why_unwritable

        if problem := why_unwritable(Path(wanted.to), tree=wanted.how == "out"):
            raise click.UsageError(f"--{wanted.how} {wanted.to}: {problem}: name another place")
    if wanted.how == "branch":
        from tasks.runs.branch import Branch

        Branch(plan.root, wanted.to, "").check()
    if wanted.check:
        from settings.errors import LongstreamError
        from tasks.runs.scratch import Scratch

        with Scratch(plan.root, wanted.check, wanted.check_s) as scratch:
            checked = scratch.check()
        if not checked.passed:
            last = checked.output.splitlines()[-1:]
            raise LongstreamError(
                ": ".join([f"--check fails before anything is changed: {checked.why}", *last])
            )


def _begun(
    client: redis.Redis,
    plan: Plan,
    instruction: str,
    effort: str | None,
    wanted: Delivery | None,
    asked: Asked,
    settings: Settings,
) -> Found:
    from tasks.cli.prepare import say
    from tasks.runs.begin import begin, find
    from tasks.runs.record import Delivery, run_of
    from worker.errors import UnknownJob

    if asked.job_id is not None:
        # The same id is the same run, as it was sent.
        with suppress(UnknownJob):
            found = find(client, asked.job_id, plan.root, exact=True)
            same = {file.path for file in plan.files} == found.sources.keys()
            if not same or found.instruction.strip() != instruction.strip():
                say(
                    f"run {found.run.id} was told something else before, and this is what came of "
                    "it; another --id begins a new one"
                )
            return found
    run = run_of(
        asked.job_id or os.urandom(6).hex(),
        plan.groups,
        plan.root,
        model=plan.model,
        effort=effort,
        delivery=wanted or Delivery(),
        terms=asked.terms(),
        chosen=plan.chosen,
    )
    return begin(client, run, plan.groups, instruction, settings.retention.ages_s[1])


def _resumed(client: redis.Redis, run_id: str) -> tuple[Found, Path]:
    from tasks.cli.prepare import say
    from tasks.runs.begin import find

    here = Path.cwd()
    found = find(client, run_id, here)
    run = found.run
    if run.is_here():
        return found, Path(run.root)
    say(f"run {run.id} was sent from {run.root} on {run.host}; its files are looked for in {here}")
    return found, here
