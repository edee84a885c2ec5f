"""`longstream tail`: follow a job from any point."""

from __future__ import annotations

import sys

import click

_EPILOG = """\b
Examples:
  longstream tail 3f9a                 from the start; the start of an id is enough
  longstream tail 3f9a --from 1-7      behind entry 1-7
  longstream tail 3f9a --raw --json    every entry, superseded text as well
"""


@click.command(epilog=_EPILOG)
@click.argument("job")
@click.option("--from", "start", default="0-0", help="The cursor of the last entry you have.")
@click.option("--raw", is_flag=True, help="Everything in the log, not just the one answer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(job: str, start: str, raw: bool, as_json: bool) -> None:
    """Show JOB's text as it comes, and what it waits for while none does."""
    from tasks import jobs
    from tasks.cli.follow import conclude, follow, sink_for
    from tasks.cli.prepare import prepare
    from worker.log.cursor import Cursor, CursorError

    try:
        Cursor.parse(start)
    except CursorError as error:
        raise click.UsageError(str(error)) from error
    prepare()
    job_id = jobs.find(job)
    simulated = jobs.simulated(job_id)
    end = follow(job_id, start, sink_for(json=as_json, simulated=simulated), raw=raw)
    sys.exit(conclude(end, job_id, simulated=simulated))
