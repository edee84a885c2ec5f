"""`longstream queue`: who waits, for what, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from worker.admission.waiting import Queue, Waiting

_EPILOG = """\b
Examples:
  longstream queue
  longstream queue --count 100 --json
"""


@click.command(epilog=_EPILOG)
@click.option("--count", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a pool.")
def command(count: int, as_json: bool) -> None:
    """Show the waiting line: place, tenant, class, what is waited for, expected start."""
    import msgspec

    from tasks import jobs
    from tasks.cli.prepare import prepare

    prepare()
    for queue in jobs.queues(count):
        if as_json:
            click.echo(msgspec.json.encode(queue).decode())
        else:
            _show(queue)


def _show(queue: Queue) -> None:
    click.echo(
        f"{queue.pool}: {queue.waiting} waiting, {queue.delayed} delayed, {queue.running} running;"
        f" {queue.workers} worker{'' if queue.workers == 1 else 's'} with {queue.slots} slots"
    )
    for job in queue.first:
        click.echo("  " + "  ".join(_cells(job)))


def _cells(job: Waiting) -> list[str]:
    from worker.log.status import starting_in

    place = "-" if job.place is None else str(job.place)
    starts = "start unknown" if job.starts_s is None else starting_in(job.starts_s)
    return [place, job.job, job.tenant, job.priority, starts, f"waits for {job.waits_for}"]
