"""`longstream bench`: the validation loop, and its report beside the published figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasks.cli import exits
from tasks.cli.amounts import USD
from tasks.cli.ask import EFFORTS
from tasks.cli.terms import named

if TYPE_CHECKING:
    from decimal import Decimal

    from settings.model import Settings
    from tasks.bench.book import Header
    from tasks.bench.report import Report
    from tasks.bench.run import Options

_EPILOG = """\b
Examples:
  longstream bench --samples 100 --max-cost 5 --report bench.html
  longstream bench --simulate                  5,000 samples and the official SDK beside them
  longstream bench --samples 40 --effort low --json | jq '.ours.timeouts'

\b
Interrupted, by Ctrl-C or otherwise, the same command goes on where it was. Jobs that were under
way run on meanwhile, and are taken up again, not paid twice. When all samples are there, it only
reports them.

\b
Exit codes:
  0 every answer came whole   1 some did not   2 usage   3 stopped by --max-cost   130 Ctrl-C
"""

EXIT_LOSSES = 1
EXIT_STOPPED = 3


@click.command(epilog=_EPILOG)
@click.option(
    "--samples",
    default=5_000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    help="How many prompts are sent.",
)
@click.option(
    "--concurrency",
    default=50,
    show_default=True,
    type=click.IntRange(1, 1_000),
    help="Samples at a time; the limits of the accounts hold all the same.",
)
@click.option(
    "--effort",
    "efforts",
    multiple=True,
    type=click.Choice(EFFORTS),
    help="May be repeated: they take turns.  [default: low, medium]",
)
@click.option(
    "--model",
    callback=named,
    help="Default: the one of the settings. Simulator: only what its tokens are priced as.",
)
@click.option("--max-cost", type=USD, help="Begin nothing that could pass this sum.")
@click.option("--simulate", is_flag=True, help="Use the simulator although keys are configured.")
@click.option(
    "--shorten",
    "factor",
    default=30.0,
    show_default=True,
    type=click.FloatRange(1, 100),
    help="Simulator: divide its silences, and all time-outs for silence, by this.",
)
@click.option(
    "--timed",
    default=200,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Simulator: samples at its own pace, for the times.",
)
@click.option("--sdk/--no-sdk", default=True, help="Simulator: the official SDK as well.")
@click.option("--report", "page", type=click.Path(path_type=Path), help="Write an HTML page.")
@click.option("--state", type=click.Path(path_type=Path), help="Keep the samples in this file.")
@click.option("--fresh", is_flag=True, help="Begin anew, whatever the state file holds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    samples: int,
    concurrency: int,
    efforts: tuple[str, ...],
    model: str | None,
    max_cost: Decimal | None,
    simulate: bool,
    factor: float,
    timed: int,
    sdk: bool,
    page: Path | None,
    state: Path | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Send many prompts, reasoning-heavy and visible-heavy in turn, and report what came back.

    Each prompt is a job of the configured pools and goes the way of every job. Without an API key,
    or with --simulate, a private stack with the simulator takes them: some samples at its own pace
    for the times, then all with every silence shortened while 1.7 % of the streams are hit by
    stalls and proxies, and the same load through the official SDK, if it is installed
    (pip install 'longstream[bench]').

    The prompts cost what they cost: a sample takes up to 12,000 output tokens. --max-cost reserves
    that much for every sample under way, so the sum is never passed by what began.
    """
    from settings import load
    from tasks.bench.run import Options

    _writable(page)
    settings = load()
    simulated = simulate or not settings.pools or settings.simulated
    options = Options(
        samples=samples,
        concurrency=concurrency,
        efforts=tuple(dict.fromkeys(efforts)) or ("low", "medium"),
        model=model or settings.model,
        max_cost=max_cost,
        factor=factor if simulated else 1.0,
        timed=timed,
        with_sdk=sdk,
    )
    report = _run(options, settings, state, simulated=simulated, fresh=fresh)
    if page is not None:
        _write(page, report)
    _show(report, as_json=as_json)
    sys.exit(EXIT_STOPPED if not report.complete else 0 if report.ok else EXIT_LOSSES)


def _run(
    options: Options, settings: Settings, state: Path | None, *, simulated: bool, fresh: bool
) -> Report:
    import asyncio

    from tasks.bench.book import Book
    from tasks.bench.run import Run
    from tasks.cli.prepare import prepare, say
    from tasks.cli.progress import progress

    header = _header(options, settings, simulated=simulated)
    path = state or _default_state(header)
    # What is refused is refused before anything is started.
    book = Book(path, header, fresh=fresh)
    try:
        with progress() as show:
            run = Run(options, book, settings, show)
            if simulated:
                return asyncio.run(run.simulated())
            return asyncio.run(run.configured(prepare(serving=True)))
    except KeyboardInterrupt:
        say(f"{len(book.samples):,} samples are in {path}; the same command goes on from there")
        sys.exit(exits.INTERRUPTED)
    finally:
        book.close()


def _header(options: Options, settings: Settings, *, simulated: bool) -> Header:
    import os
    from urllib.parse import urlsplit

    from tasks.bench.book import Header
    from tasks.bench.run import CONFIGURED, FIELD, SIMULATED

    keys = () if simulated else settings.pool_for(options.model).keys
    return Header(
        run=os.urandom(4).hex(),
        source=", ".join(f"{key.alias} at {urlsplit(key.base_url).netloc}" for key in keys),
        mode=SIMULATED if simulated else CONFIGURED,
        model=FIELD if simulated else options.model,
        efforts=options.efforts,
        factor=options.factor,
    )


def _default_state(header: Header) -> Path:
    """One file for each thing that can be measured."""
    import hashlib

    from tasks.local.stack import state_directory

    what = f"{header.source} {header.model} {' '.join(header.efforts)} {header.factor:g}"
    name = f"{header.mode}-{hashlib.sha256(what.encode()).hexdigest()[:8]}.jsonl"
    return state_directory() / "bench" / name


def _writable(page: Path | None) -> None:
    """A report that can not be written must be known before hours of work, not after."""
    if page is None:
        return
    try:
        page.open("a").close()
    except OSError as error:
        raise click.UsageError(f"cannot write the report {page}: {error.strerror}") from error


def _write(path: Path, report: Report) -> None:
    from datetime import UTC, datetime

    from tasks.bench.page import page
    from tasks.cli.prepare import say

    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, longstream {report.versions['longstream']}"
    path.write_text(page(report, made), "utf-8")
    say(f"the report is in {path}")


def _show(report: Report, *, as_json: bool) -> None:
    from tasks.bench.report import as_json as encoded
    from tasks.bench.table import table

    click.echo(encoded(report).decode() if as_json else table(report))
