"""`longstream cancel`: stop a job, or all jobs of a run, waiting or running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

_EPILOG = """\b
Examples:
  longstream cancel 3f9a                  the start of an id is enough
  longstream cancel 3f9a && longstream tail 3f9a
  longstream cancel 8c1d                  a run of `longstream refactor`: all its jobs
"""


@click.command(epilog=_EPILOG)
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(job: str, as_json: bool) -> None:
    """Cancel JOB, or every job of a run. The text so far is kept. Cancelling twice is fine.

    A job that waits is cancelled at once; one that runs, or whose response goes on at the provider,
    is stopped by a worker, and what was generated until then is billed.
    """
    import json

    from tasks import jobs
    from tasks.cli.prepare import prepare

    prepare()
    run, meant = _meant(job)
    states: Counter[str] = Counter()
    for job_id in meant:
        what = jobs.cancel(job_id)
        states[what] += 1
        if as_json:
            click.echo(json.dumps({"job": job_id, "state": what}))
        elif run is None:
            click.echo(_SAYS[what].format(job_id))
    if run is not None and not as_json:
        told = [f"{states[state]:,} {words}" for state, words in _OF_RUN.items() if states[state]]
        click.echo(f"jobs of run {run}: {', '.join(told)}")


_SAYS = {
    "cancelled": "job {} is cancelled",
    "stopping": "job {} is being stopped by its worker",
    "ended": "job {} had ended before",
}


#: A run may have a thousand jobs: one line for all of them.
_OF_RUN = {
    "cancelled": "cancelled",
    "stopping": "being stopped by their workers",
    "ended": "had ended before",
}


def _meant(prefix: str) -> tuple[str | None, Sequence[str]]:
    """The run that begins like this and its jobs, or the one job that does."""
    from tasks import jobs
    from tasks.runs.record import starting_with
    from tasks.stored import store

    with store() as client:
        run = starting_with(client, prefix)
    if run is None:
        return None, [jobs.find(prefix)]
    return run.id, [job.id for job in run.jobs]
