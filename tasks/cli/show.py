"""`longstream show`: one job, whole."""

from __future__ import annotations

import click

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
    from tasks.cli.prepare import prepare

    prepare()
    record = jobs.status(jobs.find(job))
    if as_json:
        click.echo(msgspec.json.encode(record).decode())
        return
    for name, value in msgspec.to_builtins(record).items():
        if name != "result" and value not in ("", 0, None):
            click.echo(f"{name:<12} {_readable(name, value)}")
    if isinstance(record.result, str):
        click.echo()
        click.echo(record.result)
    elif record.result is not None:
        click.echo(f"result       {', '.join(record.result.get('files', {})) or 'no file changed'}")
        click.echo(f"             longstream refactor --resume {record.id} shows the diff")


def _readable(name: str, value: object) -> str:
    if name.endswith("_ms") and isinstance(value, int):
        from datetime import datetime

        return datetime.fromtimestamp(value / 1000).astimezone().isoformat(timespec="milliseconds")
    if isinstance(value, dict):
        return ", ".join(f"{amount:,} {kind}" for kind, amount in value.items())
    return str(value)
