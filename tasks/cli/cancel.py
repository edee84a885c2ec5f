"""`longstream cancel`: stop a job, or all jobs of a run, waiting or running."""

from __future__ import annotations

from collections.abc import Iterable

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

    A job that waits is cancelled at once; one that runs is stopped by its worker, and what the
    provider has generated until then is billed.
    """
    import json

    from tasks import jobs
    from tasks.cli.prepare import prepare

    prepare()
    for job_id in _meant(job):
        what = jobs.cancel(job_id)
        told = {"job": job_id, "state": what}
        click.echo(json.dumps(told) if as_json else _SAYS[what].format(job_id))


_SAYS = {
    "cancelled": "job {} is cancelled",
    "stopping": "job {} is being stopped by its worker",
    "ended": "job {} had ended before",
}


def _meant(prefix: str) -> Iterable[str]:
    """The jobs of the run that begins like this, or the one job that does."""
    from tasks import jobs
    from tasks.runs.record import starting_with
    from tasks.stored import store

    with store() as client:
        run = starting_with(client, prefix)
    return [jobs.find(prefix)] if run is None else [job.id for job in run.jobs]
