"""`longstream tail`: follow a job from any point."""

from __future__ import annotations

import sys

import click

_EPILOG = """\b
Examples:
  longstream tail 3f9a                    all of it; the start of an id is enough
  longstream tail 3f9a --from 1-7         what comes behind entry 1-7
  longstream tail 3f9a > answer.txt       the text alone
  longstream tail 3f9a --json | jq -r 'select(.type == "text").text'
  longstream tail 3f9a --raw --json       every entry, superseded text as well

\b
With --json, one object a line:
  {"cursor": "1-7", "type": "text", "offset": 120, "text": "..."}
  {"cursor": "2-0", "type": "cut", "offset": 0}      forget the text from there on
  {"cursor": "1-9", "type": "end", "outcome": "completed", "usage": {...}, "attempts": 1}
Other types: attempt, thinking, note, status (which has no cursor).

\b
Exit codes:
  0 completed   1 failed   2 usage   3 incomplete   4 cancelled   130 Ctrl-C
"""


@click.command(epilog=_EPILOG)
@click.argument("job")
@click.option(
    "--from",
    "start",
    default="0-0",
    metavar="CURSOR",
    help="The cursor of the last entry you have.",
)
@click.option("--raw", is_flag=True, help="Everything in the log, not just the one answer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(job: str, start: str, raw: bool, as_json: bool) -> None:
    """Show JOB's text as it comes, and what it waits for while none does.

    JOB is an id, or the start of one. A job can be read at any time, by any number of readers,
    from any point: while it runs, after it ended, after its worker was killed. Nothing is lost
    and nothing is shown twice. Ctrl-C leaves the job running and prints the command that goes on.

    On a terminal a status line says how much the model has thought, how long no text has come,
    which attempt it is and on which key. In a pipe, stdout gets the text alone; if an answer has
    to be restarted and comes out differently, stderr says from which character on.
    """
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
