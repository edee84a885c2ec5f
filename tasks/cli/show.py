"""`longstream show`: one job, whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from worker.job.records import Record
    from worker.log.entries import Tokens

_EPILOG = """\b
Examples:
  longstream show 3f9a                        the start of an id is enough
  longstream show 3f9a --json | jq .usage
  longstream show 3f9a --json | jq -r .result
"""


@click.command(epilog=_EPILOG)
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with the result.")
def command(job: str, as_json: bool) -> None:
    """Show JOB: its state, what it used, and its result once it has one.

    A job is kept longer than its log: the result is there when `longstream tail` has nothing to
    read any more.
    """
    import msgspec

    from tasks import jobs
    from tasks.cli.columns import harmless
    from tasks.cli.prepare import prepare

    prepare()
    record = jobs.status(jobs.find(job))
    if as_json:
        click.echo(msgspec.json.encode(record).decode())
        return
    for name, said in (*_about(record), *_spent(record)):
        if said:
            click.echo(f"{name:<12}  {harmless(said)}")
    _show_result(record)


def _about(record: Record) -> Iterator[tuple[str, str]]:
    """What it is and how it stands."""
    from settings.model import SIMULATOR

    yield "job", record.id
    yield "state", f"{record.outcome or record.state}{_because(record)}"
    yield "what", record.label
    answers = f", answered by {record.served_by}" if record.served_by else ""
    yield "model", record.model + answers
    yield (
        "key",
        f"{record.key}, simulated" if record.pool == SIMULATOR and record.key else record.key,
    )
    yield "tenant", record.tenant
    yield "priority", record.priority
    worker = f", the last on {record.worker}" if record.worker else ""
    yield "attempts", f"{record.attempt}{worker}"
    yield "submitted", _time(record.created_ms)
    yield "started", _time(record.started_ms)
    yield "ended", _time(record.ended_ms)
    yield "due", _time(record.due_ms)
    yield "deadline", _time(record.deadline_ms)
    yield "on interrupt", record.on_interrupt


def _because(record: Record) -> str:
    reason = record.reason or record.why
    return f": {reason}" if reason and reason != record.outcome else ""


def _spent(record: Record) -> Iterator[tuple[str, str]]:
    """What it has used and costs, together and in each attempt."""
    from worker.ledger.totals import shown

    if record.outcome:
        yield "answer", f"{record.length:,} characters"
    if record.usage is not None:
        yield "tokens", _tokens(record.usage)
    if record.cost is not None:
        yield "cost", shown(record.cost)
    if record.max_cost_micros:
        yield "at most", f"{record.max_cost_micros / 1_000_000} USD"
    if record.rule:
        saved = "an unknown sum" if record.saved_usd is None else f"{record.saved_usd:.4f} USD"
        yield "routed", f"rule {record.rule} instead of {record.instead_of}: {saved} saved"
    for each in record.spent:
        said = [_tokens(each.tokens)]
        said += [f"wasted: {each.wasted}"] if each.wasted else []
        said += ["an estimate"] if each.estimated else []
        yield f"  attempt {each.attempt}", f"{', '.join(said)}; {each.model}, key {each.key}"


def _tokens(used: Tokens) -> str:
    cached = f" ({used.cached:,} cached)" if used.cached else ""
    reasoning = f" ({used.reasoning:,} reasoning)" if used.reasoning else ""
    return f"{used.input:,} input{cached}, {used.output:,} output{reasoning}"


def _time(at_ms: int) -> str:
    if not at_ms:
        return ""
    from datetime import datetime

    at = datetime.fromtimestamp(at_ms / 1000).astimezone()
    return at.strftime("%Y-%m-%d %H:%M:%S %Z")


def _show_result(record: Record) -> None:
    import sys

    from tasks.cli.columns import harmless

    if isinstance(record.result, str):
        click.echo()
        click.echo(harmless(record.result) if sys.stdout.isatty() else record.result)
    elif record.result is not None:
        files = ", ".join(record.result.get("files", {})) or "no file changed"
        click.echo(f"{'result':<12}  {harmless(files)}")
        click.echo(f"{'':<12}  longstream refactor --resume {record.id} shows the diff")
