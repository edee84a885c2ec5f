"""`longstream cancel`: stop a job, waiting or running."""

from __future__ import annotations

import click

_EPILOG = """\b
Examples:
  longstream cancel 3f9a                  the start of an id is enough
  longstream cancel 3f9a && longstream tail 3f9a
"""


@click.command(epilog=_EPILOG)
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str, as_json: bool) -> None:
    """Cancel JOB. Its text so far is kept. Cancelling twice is fine.

    A job that waits is cancelled at once; one that runs is stopped by its worker, and what the
    provider has generated until then is billed.
    """
    import json

    from tasks import jobs
    from tasks.cli.prepare import prepare

    prepare()
    job_id = jobs.find(job)
    what = jobs.cancel(job_id)
    if as_json:
        click.echo(json.dumps({"job": job_id, "state": what}))
        return
    click.echo(
        {
            "cancelled": f"job {job_id} is cancelled",
            "stopping": f"job {job_id} is being stopped by its worker",
            "ended": f"job {job_id} had ended before",
        }[what]
    )
