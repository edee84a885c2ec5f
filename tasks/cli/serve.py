"""`longstream serve`: jobs over HTTP."""

from __future__ import annotations

import click

from tasks.cli.terms import named

_EPILOG = """\b
Examples:
  longstream serve
  longstream serve --port 9000
  curl -N http://127.0.0.1:8700/jobs/3f9a5b7c1d2e/events      a job's text as it comes
  longstream token create --scope read && longstream serve --host 0.0.0.0
"""


@click.command(epilog=_EPILOG)
@click.option("--host", callback=named, help="The address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65_535), help="0 takes a free one.  [default: 8700]")
@click.option("--require-tokens", is_flag=True, help="On loopback as well.")
@click.option(
    "--announce-file", type=click.Path(dir_okay=False), help="Write the URL there, once it serves."
)
def command(
    host: str | None, port: int | None, require_tokens: bool, announce_file: str | None
) -> None:
    """Serve jobs over HTTP until SIGTERM or Ctrl-C: submit, list, cancel, and follow live.

    On loopback no token is needed; anywhere else every caller needs one, from `longstream token
    create`. Open the printed address in a browser for the page.
    """
    from pathlib import Path

    from msgspec.structs import replace

    from settings import load
    from settings.errors import LongstreamError
    from tasks.cli.prepare import prepare, say

    given = {"host": host, "port": port, "tokens": "always" if require_tokens else None}
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        from tasks.gateway import serving
    except ModuleNotFoundError as error:
        raise LongstreamError(
            f"the gateway needs {error.name}: pip install 'longstream[gateway]'"
        ) from error
    # What can not be had is said before a stack is started for it.
    gateway = replace(load().gateway, **chosen)
    listener = serving.listening(gateway.host, gateway.port)
    settings = replace(prepare(serving=True), gateway=gateway)
    from tasks.current import use
    from worker.seeing.logging import configure, report_what_nobody_caught
    from worker.seeing.redaction import know

    use(settings)
    configure()
    report_what_nobody_caught()
    know(settings)
    if serving.needs_tokens(settings, listener.getsockname()[0]) and not _has_tokens():
        say("no token is valid, so all callers are refused: `longstream token create` makes one")
    url = serving.url_of(listener)
    if announce_file is not None:
        Path(announce_file).write_text(url)
    say(f"serving on {url}")
    serving.serve(settings, listener)


def _has_tokens() -> bool:
    from tasks.gateway.tokens import listed
    from tasks.stored import store

    with store() as client:
        return bool(listed(client))
