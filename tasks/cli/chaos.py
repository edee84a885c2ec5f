"""`longstream chaos`: break everything on purpose, and count what was lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tasks.cli import exits
from tasks.cli.terms import named

if TYPE_CHECKING:
    from tasks.local.chaos.run import Report

_EPILOG = """\b
Examples:
  longstream chaos
  longstream chaos --jobs 1000 --workers 6 --seed 7
  longstream chaos --faults kill,redis-kill --json

\b
Faults: kill, pause, redis-restart, redis-kill, partition, upstream-reset, upstream-stall,
duplicate-message, drain. Exit 1 when anything was lost, doubled, out of order or left behind.
"""

#: Findings shown of each kind; all of them are in the JSON.
_SHOWN = 10


@click.command(epilog=_EPILOG)
@click.option(
    "--jobs", default=50, show_default=True, type=click.IntRange(1, 5000), help="How many run."
)
@click.option(
    "--workers", default=3, show_default=True, type=click.IntRange(2, 50), help="Who runs them."
)
@click.option("--seed", default=1, show_default=True, help="The same seed, the same faults.")
@click.option(
    "--faults", default="", callback=named, help="Only these, comma-separated; default: all."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(jobs: int, workers: int, seed: int, faults: str, as_json: bool) -> None:
    """Run jobs on the simulator while workers, Redis and cables fail, with readers attached.

    It starts a Valkey, a simulator and workers of its own in a temporary directory, and stops them
    all; no other stack is touched.
    """
    import asyncio
    import shutil
    import tempfile
    from pathlib import Path

    from tasks.cli.prepare import say
    from tasks.local.chaos.plan import Fault, plan
    from tasks.local.chaos.run import run

    try:
        kinds = tuple(Fault(name.strip()) for name in faults.split(",") if name.strip())
    except ValueError as error:
        raise click.UsageError(f"{error}: choose from {', '.join(Fault)}") from error
    state = Path(tempfile.mkdtemp(prefix="longstream-chaos-"))
    keep = False
    try:
        report = asyncio.run(run(plan(jobs, workers, seed, kinds or tuple(Fault)), state, say))
        keep = not report.verdict.ok
    except asyncio.CancelledError:
        sys.exit(exits.TERMINATED)
    except Exception:
        keep = True
        raise
    finally:
        if keep:
            say(f"the logs of all processes are in {state}")
        else:
            shutil.rmtree(state, ignore_errors=True)
    click.echo(_as_json(report) if as_json else _table(report))
    sys.exit(0 if report.verdict.ok else 1)


def _as_json(report: Report) -> str:
    import msgspec

    fields = msgspec.to_builtins(report) | {"ok": report.verdict.ok}
    return msgspec.json.encode(fields).decode()


def _table(report: Report) -> str:
    lines = [f"{'fault injected':<42} {'times':>6}"]
    lines += [f"{fault:<42} {times:>6}" for fault, times in report.injected.items()]
    lines += ["", f"{'broken':<42} {'found':>6}"]
    for name, found in report.verdict.rows().items():
        lines.append(f"{name:<42} {len(found):>6}")
        lines += [f"  {each}" for each in found[:_SHOWN]]
    lines += ["", f"{'recovery after':<20} {'jobs':>6} {'median s':>9} {'worst s':>9}"]
    for fault, times in report.recovery.items():
        lines.append(
            f"{fault:<20} {times['jobs']:>6.0f} {times['median_s']:>9.2f} {times['worst_s']:>9.2f}"
        )
    summed = f"{report.jobs} jobs in {report.attempts} attempts, {report.readers} readers"
    lines += ["", f"{summed}, {report.seconds:.0f} s; the provider was simulated"]
    return "\n".join(lines)
