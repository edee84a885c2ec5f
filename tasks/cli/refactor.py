"""`longstream refactor`: files and an instruction in, a diff out, applied if asked."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasks.cli.ask import EFFORTS

if TYPE_CHECKING:
    from tasks.edits.source import SourceFile

_EPILOG = """\b
Examples:
  longstream refactor app.py -m "use asyncio"
  longstream refactor src/*.py -m "add type hints" --apply
  longstream refactor app.py -m "use asyncio" --out new/
  longstream refactor app.py -m "use asyncio" | git apply
  longstream refactor app.py -m "use asyncio" --detach      print the job id and return
  longstream refactor --resume 3f9a --apply                 deliver that job, later

\b
Exit codes:
  0 delivered   1 failed, or a file was refused   2 usage   3 incomplete   4 cancelled
  130 Ctrl-C
"""


@click.command(epilog=_EPILOG)
@click.argument("files", nargs=-1, type=click.Path())
@click.option("-m", "--message", "instruction", default="", help="What to change.")
@click.option("--diff", "how", flag_value="diff", default="diff", help="Show a diff (default).")
@click.option("--apply", "how", flag_value="apply", help="Write the changes over the files.")
@click.option(
    "--out", type=click.Path(file_okay=False), metavar="DIR", help="Write changed files below DIR."
)
@click.option("--force", is_flag=True, help="Write Python that does not compile, too.")
@click.option("--model", default="", help="The model; default: the settings'.")
@click.option("--effort", type=click.Choice(EFFORTS), help="Reasoning effort; default: low.")
@click.option(
    "--resume", "job", metavar="JOB", help="A job submitted before, from the same directory."
)
@click.option("--detach", is_flag=True, help="Print the job id and return.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    files: Sequence[str],
    instruction: str,
    how: str,
    out: str | None,
    force: bool,
    model: str,
    effort: str | None,
    job: str | None,
    detach: bool,
    as_json: bool,
) -> None:
    """Change FILES as the message says, and show what changes as a diff.

    Files are sent whole. Nothing is written unless --apply or --out is given; then a file is
    written only if it is still what was sent, and Python only if it compiles. Each file is judged
    for itself: one that is refused is named with the reason, and the exit code is 1.

    On a terminal the answer is shown as it comes, then the diff. In a pipe, stdout holds the diff
    alone, as `git apply` takes it. Ctrl-C leaves the job running and prints how to go on.
    """
    from tasks import jobs
    from tasks.cli.prepare import prepare, say

    if how == "apply" and out is not None:
        raise click.UsageError("--apply writes over the files and --out beside them: choose one")
    if job is None:
        root, sources = _sources(files, instruction)
        simulated = prepare(serving=True).simulated
        job_id = _submit(sources, instruction, model, effort)
    elif files or instruction:
        raise click.UsageError("--resume takes a job alone: its files and message are known")
    else:
        prepare()
        job_id, root = jobs.find(job), Path.cwd()
        simulated = jobs.simulated(job_id)
        sources, instruction = _submitted(job_id)
    again = f"longstream refactor --resume {job_id}{_options(how, out, force, as_json)}"
    if detach:
        click.echo(job_id)
        say(f"deliver it with: {again}")
        return

    # After the submit: the worker begins while this is loaded.
    from tasks.cli.follow import conclude, follow, sink_for

    sink = sink_for(json=as_json, simulated=simulated, text_on_stdout=sys.stdout.isatty())
    end = follow(job_id, "0-0", sink, again=again)
    code = conclude(end, job_id, simulated=simulated)
    if code == 0:
        from tasks.cli.deliver import deliver

        answer = jobs.result(job_id)
        code = deliver(
            sources,
            answer,
            root,
            apply_them=how == "apply",
            out=Path(out) if out else None,
            force=force,
            as_json=as_json,
        )
    sys.exit(code)


def _options(how: str, out: str | None, force: bool, as_json: bool) -> str:
    """The options of the delivery, as they are typed."""
    options = {"--apply": how == "apply", "--force": force, "--json": as_json}
    typed = "".join(f" {option}" for option, given in options.items() if given)
    return typed + (f" --out {shlex.quote(out)}" if out is not None else "")


def _sources(files: Sequence[str], instruction: str) -> tuple[Path, list[SourceFile]]:
    from settings import load
    from tasks.cli.prepare import utf8
    from tasks.edits.source import SourceError, read_sources

    if not files:
        raise click.UsageError('no files: longstream refactor FILE... -m "what to change"')
    if not instruction.strip():
        raise click.UsageError('the instruction is empty: say what to change with -m "..."')
    utf8("instruction", instruction)
    root = _root(files)
    try:
        return root, read_sources(files, root, load().max_file_bytes)
    except SourceError as error:
        for problem in error.problems:
            click.echo(f"longstream: {problem}", err=True)
        sys.exit(2)


def _root(files: Sequence[str]) -> Path:
    """The working directory; for files elsewhere, the directory they have in common."""
    here = Path.cwd()
    places = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100 keeps links
    if all(place.is_relative_to(here) for place in places):
        return here
    return Path(os.path.commonpath([place.parent for place in places]))


def _submit(sources: list[SourceFile], instruction: str, model: str, effort: str | None) -> str:
    import msgspec

    from tasks import jobs

    arguments = [msgspec.to_builtins(source) for source in sources]
    return jobs.submit("tasks.refactor", arguments, instruction, model=model, effort=effort)


def _submitted(job_id: str) -> tuple[list[SourceFile], str]:
    from settings.errors import LongstreamError
    from tasks import jobs
    from tasks.kinds import REFACTOR, sources_of

    task, args, kwargs = jobs.arguments(job_id)
    if task != REFACTOR.task:
        raise LongstreamError(f"job {job_id} is no refactor job: longstream tail {job_id}")
    named = dict(zip(("files", "instruction"), args, strict=False)) | kwargs
    return sources_of(named["files"]), named["instruction"]
