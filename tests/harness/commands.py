"""Command lines as documents show them, and whether `longstream` takes them."""

from __future__ import annotations

import contextlib
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from tasks.cli.group import COMMANDS, cli

_FENCE = re.compile(r"^```(?:\w* *)\n(.*?)^```$", re.M | re.S)
_SPAN = re.compile(r"`(longstream [^`]+)`")
#: What stands behind a command in an example, two blanks away from it.
_REMARK = re.compile(r"(?<=\S) {2,}(?![^\"]*\"[^\"]*$).*")
_VARIABLE = re.compile(r"\$\w+")
_ASSIGNED = re.compile(r"[A-Z_]+=.*")


def every_command() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands with the words that call them, groups and what is in them."""
    for name in COMMANDS:
        yield from _below(_command(name), name)


def _below(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _below(each, *path, name)


def _command(name: str) -> click.Command:
    command = importlib.import_module(f"tasks.cli.{name}").command
    assert isinstance(command, click.Command)
    return command


def in_document(text: str) -> Iterator[list[str]]:
    """The calls in a document's blocks and spans."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield from called(line)
    for span in _SPAN.findall(_FENCE.sub("", text)):
        yield from called(" ".join(span.split()))


def called(line: str) -> list[list[str]]:
    """The calls of `longstream` in a line of shell, without the name itself."""
    if "longstream " not in line:
        return []
    bare = _VARIABLE.sub("x", _REMARK.sub("", line.strip()))
    words = shlex.shlex(bare, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    calls: list[list[str]] = [[]]
    for word in words:
        if set(word) <= set("();<>|&"):
            calls.append([])
        elif calls[-1] or not _ASSIGNED.fullmatch(word):
            calls[-1].append(word)
    return [call[1:] for call in calls if call and call[0] == "longstream"]


def problem(call: list[str], *, whole: bool = True) -> str:
    """Why `longstream` would not take the call, or nothing. `whole`: nothing may be left out."""
    if not call or call[0].startswith("-"):
        command, name, rest = cli, "longstream", call
    elif call[0] not in COMMANDS:
        return f"no command {call[0]}"
    else:
        command, name, rest = _command(call[0]), call[0], call[1:]
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, name, rest = command.commands[rest[0]], rest[0], rest[1:]
    try:
        with contextlib.suppress(click.exceptions.Exit):
            command.make_context(name, list(rest))
    except click.MissingParameter as error:
        return error.format_message() if whole else ""
    except click.exceptions.NoArgsIsHelpError:
        return ""
    except click.UsageError as error:
        said = error.format_message()
        # The reader has the file; the document has its name.
        return "" if said.endswith("does not exist.") else said
    strange = isinstance(command, click.Group) and rest and not rest[0].startswith("-")
    return f"no command {rest[0]}" if strange else ""


def documents(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]
