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
@click.option(
    "--count", default=20, show_default=True, type=click.IntRange(min=1), help="How many."
)
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
    from tasks.cli.listing import Column, counted, lines_of, screen_width

    click.echo(
        f"{queue.pool}: {queue.waiting:,} waiting, {queue.delayed:,} delayed, "
        f"{queue.running:,} running; {counted(queue.workers, 'worker')} with "
        f"{counted(queue.slots, 'slot')}"
    )
    if not queue.first:
        return
    columns = (
        Column(head="place", right=True),
        Column(head="job", least=12),
        Column(head="tenant", least=8, goes=2),
        Column(head="class", goes=1),
        Column(head="start", least=12),
        Column(head="waits for", least=12, goes=3),
    )
    for line in lines_of(columns, [_cells(job) for job in queue.first], screen_width()):
        click.echo(line)


def _cells(job: Waiting) -> list[str]:
    from worker.log.status import starting_in

    place = "-" if job.place is None else str(job.place)
    starts = "unknown" if job.starts_s is None else starting_in(job.starts_s)
    starts = starts.removeprefix("expected to start ")
    return [place, job.job, job.tenant, job.priority, starts, job.waits_for]
