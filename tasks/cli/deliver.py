"""Telling what became of the files of a refactor, as lines, as a diff or as JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from tasks.cli.columns import harmless
from tasks.cli.listing import counted
from tasks.cli.prepare import say
from tasks.edits.checks import Change
from tasks.edits.paths import shown
from tasks.runs.delivery import BAD, Deliverer, FileDone

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def line_of_file(done: FileDone) -> str:
    """What became of a file, in one line."""
    what = done.reason if done.reason == "was written before" else done.state
    reason = f", {done.reason}" if done.reason and done.reason != what else ""
    return f"{shown(done.path)}: {what}{reason}"


def show_diff(changes: Sequence[Change]) -> None:
    """To stdout, as `git apply` takes it; in colours where a person looks."""
    if not sys.stdout.isatty():
        for change in changes:
            sys.stdout.buffer.write(change.diff)
        sys.stdout.buffer.flush()
        return
    for change in changes:
        for line in _text(change).splitlines():
            click.secho(harmless(line), fg=_COLOURS.get(line[:1]))


def report(deliverer: Deliverer, root: Path, how: str, to: str) -> None:
    """Show the diff if that was asked for; what was made of the changes, if anything was. The paths
    of a diff begin at `root`, which may be another directory than this one."""
    changes = deliverer.changes
    if not changes and not any(done.state in BAD for done in deliverer.done.values()):
        say("no file changes")
    elif how == "diff":
        show_diff(changes)
        if changes and not _is_here(root):
            say(f"the paths of the diff begin at {shown(str(root))}")
    elif how == "patch" and changes:
        there = [] if _is_here(root) else ["-C", str(root)]
        say(f"{counted(len(changes), 'file')} changed: {_typed('git', *there, 'apply', to)}")
    elif how == "branch" and deliverer.commit:
        files = counted(len(changes), "file")
        say(f"{files} changed on branch {to}, commit {deliverer.commit[:12]}")


def _is_here(root: Path) -> bool:
    return root.is_dir() and root.samefile(Path.cwd())


def _typed(*words: str) -> str:
    """A command as it is typed."""
    return " ".join(shlex.quote(word) if word.isprintable() else shown(word) for word in words)


def as_json(deliverer: Deliverer) -> dict[str, Any]:
    """The last object of `--json`."""
    done = deliverer.done.values()
    applied = [each for each in done if each.state in ("written", "put back")]
    return {
        "type": "result",
        "files": [msgspec.to_builtins(each) for each in done],
        "written": [each.path for each in applied if each.reason != "was written before"],
        "diff": "".join(_text(change) for change in deliverer.changes),
        "notes": "\n".join(deliverer.notes),
    }


def _text(change: Change) -> str:
    return change.diff.decode(change.source.encoding, "replace")
