"""`longstream verify`: is a job's log whole?"""

from __future__ import annotations

import sys

import click

_EPILOG = """\b
Examples:
  longstream verify 3f9a
  longstream verify 3f9a --json | jq '.findings[].id'
"""


@click.command(epilog=_EPILOG)
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str, as_json: bool) -> None:
    """Reckon JOB's log again and compare it with its seal. Exit 1 when an entry was changed, lost,
    repeated or moved; each is named by its id, those of superseded attempts as well."""
    import msgspec

    from tasks import jobs
    from tasks.cli.listing import counted
    from tasks.cli.prepare import prepare

    prepare()
    job_id = jobs.find(job)
    verdict = jobs.verify(job_id)
    if as_json:
        shown = {"job": job_id, "ok": verdict.ok, **msgspec.to_builtins(verdict)}
        click.echo(msgspec.json.encode(shown).decode())
    else:
        for finding in verdict.findings:
            where = "" if finding.clean else " (a superseded attempt)"
            click.echo(f"{finding.id} {finding.fault}: {finding.says}{where}")
        if not verdict.entries and verdict.ok:
            click.echo(f"job {job_id}: nothing to verify yet, its log has not begun")
            return
        seal = f"sealed as {verdict.outcome}" if verdict.outcome else "not sealed yet"
        state = "whole" if verdict.ok else counted(len(verdict.findings), "finding")
        click.echo(
            f"job {job_id}: {state}; {counted(verdict.entries, 'entry', 'entries')}, "
            f"{counted(verdict.attempts, 'attempt')}, {counted(verdict.length, 'character')}, "
            f"sha256 {verdict.digest[:16]}, {seal}"
        )
    sys.exit(0 if verdict.ok else 1)
