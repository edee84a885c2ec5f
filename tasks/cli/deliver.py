"""Delivering a refactor: the checked answer as a diff, as changed files, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from tasks.cli.columns import harmless
from tasks.cli.prepare import say
from tasks.edits.answer import Answer
from tasks.edits.apply import Applied, Refused, apply, write_out
from tasks.edits.checks import Change, Result, check
from tasks.edits.paths import shown
from tasks.edits.source import SourceFile

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def deliver(
    sources: Sequence[SourceFile],
    answer: Mapping[str, Any],
    root: Path,
    *,
    apply_them: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Show or write the changes; the exit code: 1 when a file was refused."""
    result = check(sources, Answer(dict(answer["files"]), str(answer["notes"])), root)
    written: list[Applied | Refused] = []
    if out is not None:
        written = write_out(result, out, force)
    elif apply_them:
        written = apply(result, root, force)
    if as_json:
        click.echo(msgspec.json.encode(_as_json(result, written)).decode())
    else:
        _tell(result, written, showing=out is None and not apply_them)
    refused = result.refused or any(isinstance(each, Refused) for each in written)
    return 1 if refused else 0


def _as_json(result: Result, written: Sequence[Applied | Refused]) -> dict[str, Any]:
    return {
        "type": "result",
        "files": [msgspec.to_builtins(verdict) for verdict in result.verdicts],
        "written": [msgspec.to_builtins(each) for each in written],
        "diff": "".join(_text(change) for change in result.changes),
        "notes": result.notes,
    }


def _tell(result: Result, written: Sequence[Applied | Refused], *, showing: bool) -> None:
    for verdict in result.verdicts:
        if verdict.kind == "unchanged":
            say(f"{shown(verdict.path)}: unchanged")
        elif verdict.kind == "doubtful":
            say(f"{shown(verdict.path)}: {verdict.reason}")
        elif verdict.kind == "refused" and showing:
            say(f"{shown(verdict.path)}: refused, {verdict.reason}")
    if showing:
        _show_diff(result)
    for each in written:
        if isinstance(each, Refused):
            say(f"{shown(each.path)}: refused, {each.reason}")
        else:
            say(f"{shown(each.path)}: {'written' if each.written else 'was written before'}")
    if not result.changes and not result.refused:
        say("no file changes")


def _show_diff(result: Result) -> None:
    if not sys.stdout.isatty():
        for change in result.changes:
            sys.stdout.buffer.write(change.diff)
        sys.stdout.buffer.flush()
        return
    for change in result.changes:
        for line in _text(change).splitlines():
            click.secho(harmless(line), fg=_COLOURS.get(line[:1]))


def _text(change: Change) -> str:
    return change.diff.decode(change.source.encoding, "replace")
