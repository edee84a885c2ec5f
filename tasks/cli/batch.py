"""`longstream batch run`: a file of requests, answered into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasks.cli.amounts import USD
from tasks.cli.terms import named

if TYPE_CHECKING:
    from decimal import Decimal

_EPILOG = """\b
Examples:
  longstream batch run requests.jsonl -o results.jsonl
  longstream batch run requests.jsonl -o results.jsonl --max-cost 20 --tenant reports
  longstream batch run requests.jsonl -o results.jsonl --retry-errors
  make-requests | longstream batch run - -o results.jsonl
  jq -r 'select(.error) | [.error.line, .error.message] | @tsv' results.jsonl

\b
Every line of the requests is an object of the OpenAI Batch API:
  {"custom_id": "a-1", "method": "POST", "url": "/v1/chat/completions",
   "body": {"model": "gpt-5.5-codex", "messages": [{"role": "user", "content": "..."}]}}

\b
Interrupted, by Ctrl-C or worse? The same command goes on where it was, and asks nothing twice.
"""


@click.group(epilog=_EPILOG)
def command() -> None:
    """Answer files of requests, in the form of the OpenAI Batch API."""


@command.command(epilog=_EPILOG, short_help="Answer every line of a file.")
@click.argument(
    "requests", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the results go, one line a request.",
)
@click.option(
    "--tenant", default="default", show_default=True, callback=named, help="Whose jobs they are."
)
@click.option(
    "--priority",
    type=click.Choice(["urgent", "normal", "bulk"]),
    default="bulk",
    show_default=True,
    help="Their class in the waiting line.",
)
@click.option("--max-cost", type=USD, help="Ask nothing more once this is spent.")
@click.option(
    "--window",
    type=click.IntRange(1, 100_000),
    default=500,
    show_default=True,
    help="Jobs that are waiting or running at a time.",
)
@click.option(
    "--dry-run", is_flag=True, help="Say what would be asked of which model; ask nothing."
)
@click.option("--retry-errors", is_flag=True, help="Ask again for the lines that have an error.")
@click.option("--keep", is_flag=True, help="Keep jobs as long as others, not five minutes.")
def run(
    requests: Path,
    output: Path,
    tenant: str,
    priority: str,
    max_cost: Decimal | None,
    window: int,
    dry_run: bool,
    retry_errors: bool,
    keep: bool,
) -> int:
    """Answer every line of REQUESTS, in the form of the OpenAI Batch API; - is the input.

    A line that is no request gets an error with its number, and stops nothing. The answers come in
    the order in which they end. Exit codes: 0 all answered, 1 some lines have an error, 3 stopped
    by --max-cost.
    """
    from tasks.batches.lines import count, rereadable
    from tasks.batches.output import Output
    from tasks.batches.running import Batch, Plan
    from tasks.cli import exits
    from tasks.cli.batch_progress import Shown
    from tasks.cli.embedded import explaining
    from tasks.cli.listing import counted
    from tasks.cli.prepare import prepare, say
    from tasks.edits.disk import why_unwritable
    from tasks.stored import store

    plan = Plan(tenant=tenant, priority=priority, window=window, max_cost=max_cost, keep=keep)
    if output.resolve() == requests.resolve():
        raise click.UsageError("--output must be another file than the requests")
    if problem := why_unwritable(output):
        raise click.UsageError(f"--output {output}: {problem}: name another file")
    if dry_run:
        from tasks.cli.batch_plan import show_plan

        with click.open_file(str(requests), "rb") as source:
            show_plan(source)
        return 0
    settings = prepare(serving=True)
    with (
        click.open_file(str(requests), "rb") as source,
        Output(output, retry=retry_errors) as results,
        rereadable(source, output.parent) as file,
        Shown(count(file)) as shown,
        store() as client,
    ):
        batch = Batch(client, settings, results, plan, shown.step, explaining(settings))
        try:
            done = batch.run(file)
        except KeyboardInterrupt:
            shown.close()
            left = batch.progress.in_flight
            say(
                f"interrupted; {counted(left, 'job')} still out, and the same command collects "
                "the answers"
            )
            return exits.INTERRUPTED
    say(shown.ended(done))
    if done.held:
        say(f"{done.held}; then the same command goes on")
        return exits.OUTCOMES["incomplete"]
    if done.failed:
        say("--retry-errors asks for the lines with an error again")
    return exits.FAILED if done.failed else 0
