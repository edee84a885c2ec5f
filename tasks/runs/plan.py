"""What a run will send, before it does: files, tokens, jobs, and what is left out and why."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from settings.model import Settings
from settings.prices import price_of
from settings.routing import AUTO
from tasks.edits.blocks import block, boundary_for
from tasks.edits.paths import shown
from tasks.edits.prompt import messages_for
from tasks.edits.source import SourceError, SourceFile, gather_sources
from tasks.kinds import REFACTOR
from tasks.submitting import routed
from worker.admission.estimates import estimate, tokens_of
from worker.job.routing import Choice
from worker.ledger.cost import Cost, cost_of
from worker.log.entries import Tokens
from worker.upstream.request import Request

_FIGURES = re.compile(r"\d[\d,]*")
#: Where a reason begins to speak of the one file.
_DETAIL = re.compile(r":| \(| as ")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """`groups`: the files of each job. `left_out`: path and reason. `found`: some of the files were
    not named one by one."""

    root: Path
    model: str
    groups: tuple[tuple[SourceFile, ...], ...]
    left_out: tuple[tuple[str, str], ...]
    found: bool
    instruction: str
    #: How `auto` was answered, for all jobs of the run; None: a model was named.
    chosen: Choice | None = None

    @property
    def files(self) -> tuple[SourceFile, ...]:
        return tuple(file for group in self.groups for file in group)

    @property
    def tokens(self) -> Tokens:
        """About what it takes: every message is read, and every file comes back in its block."""
        sent = answered = 0
        for files in self.groups:
            messages = messages_for(files, self.instruction)
            sent += estimate(Request(model=self.model, messages=messages)).prompt
            boundary = boundary_for(files, self.instruction)
            answered += tokens_of("".join(block(boundary, f.path, f.text) for f in files))
        return Tokens(input=sent, output=answered)

    def cost(self, settings: Settings) -> Cost:
        return cost_of(self.tokens, price_of(self.model, settings.prices))


def plan_run(
    given: Sequence[str],
    instruction: str,
    settings: Settings,
    *,
    model: str = "",
    each: bool = False,
) -> Plan:
    """Raises SourceError with every name that can not be sent, or when nothing is left to send."""
    root, model = root_of(given), model or settings.model
    here = Path.cwd()
    names = [name if root == here else os.path.abspath(name) for name in given]  # noqa: PTH100
    named, found, left_out = _selected(names, root)
    gathered = gather_sources(named, found, root, settings.max_file_bytes)
    left_out += gathered.left_out
    files = list(gathered.files)
    if len(files) > 1 or found:
        files, too_large = _fitting(files, len(named), model)
        left_out += too_large
    if not files:
        raise SourceError([_nothing(left_out)])
    return Plan(
        root=root,
        model=model,
        groups=_grouped(files, settings, model, each=each),
        left_out=tuple(left_out),
        found=bool(found),
        instruction=instruction,
    )


def answered(plan: Plan, instruction: str, effort: str | None, settings: Settings) -> Plan:
    """The plan with one model for all its jobs, where it says `auto`: that of its largest."""
    if plan.model != AUTO:
        return plan
    largest = max(plan.groups, key=lambda files: sum(file.size for file in files))
    files = [msgspec.to_builtins(file) for file in largest]
    chosen = routed(
        settings, REFACTOR.task, (files, instruction), {"model": AUTO, "effort": effort}
    )
    return msgspec.structs.replace(plan, model=chosen.model, chosen=chosen)


def root_of(given: Sequence[str]) -> Path:
    """The working directory; for files elsewhere, the directory they have in common."""
    here = Path.cwd()
    places = [Path(os.path.abspath(name)) for name in given]  # noqa: PTH100 - keeps links
    if all(place.is_relative_to(here) for place in places):
        return here
    return Path(os.path.commonpath([_directory(place) for place in places]))


def _directory(place: Path) -> Path:
    """Where to begin: the first part of a path that is no pattern."""
    parent = place.parent
    while not parent.is_dir():
        parent = parent.parent
    return parent


def _selected(
    names: Sequence[str], root: Path
) -> tuple[Sequence[str], Sequence[str], list[tuple[str, str]]]:
    """What was named, what was found, and what was skipped while looking."""
    if all(os.path.isfile(root / name) for name in names):  # noqa: PTH113 - may not be a path
        return names, (), []
    from tasks.runs.select import select

    chosen = select(names, root)
    return chosen.named, chosen.found, [(each.path, each.reason) for each in chosen.skipped]


def _fitting(
    files: list[SourceFile], named: int, model: str
) -> tuple[list[SourceFile], list[tuple[str, str]]]:
    """The files that the model can give back whole, and those it can not. The first `named` of them
    have to be."""
    from settings.windows import window_of
    from tasks.runs.pack import room_of_one, tokens_of_file

    window = window_of(model)
    most = room_of_one(window)
    large = [file for file in files if window.known and tokens_of_file(file) > most]
    reasons = [
        (file.path, f"has about {tokens_of_file(file):,} tokens, and {model} gives back {most:,}")
        for file in large
    ]
    had_to = {file.path for file in files[:named]}
    if problems := [f"{path}: {reason}" for path, reason in reasons if path in had_to]:
        raise SourceError(problems)
    return [file for file in files if file not in large], reasons


def _grouped(
    files: list[SourceFile], settings: Settings, model: str, *, each: bool
) -> tuple[tuple[SourceFile, ...], ...]:
    if each or len(files) == 1:
        return tuple((file,) for file in files)
    from settings.windows import window_of
    from tasks.runs.pack import most_a_minute, pack, room

    limit = room(window_of(model), most_a_minute(settings, model))
    return tuple(tuple(group) for group in pack(files, limit))


def kinds_of(left_out: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each kind of reason, the most frequent first, with one file as the example.

    Reasons that differ only in their figures, or in what stands behind them, are of one kind.
    """
    kinds: dict[str, list[str]] = {}
    for path, reason in left_out:
        kind = _FIGURES.sub("", _DETAIL.split(reason, maxsplit=1)[0])
        kinds.setdefault(kind, []).append(f"{shown(path)} {reason}")
    alike = sorted(kinds.values(), key=len, reverse=True)
    return [one + (f", and {len(rest):,} more like it" if rest else "") for one, *rest in alike]


def _nothing(left_out: Sequence[tuple[str, str]]) -> str:
    """Why there is nothing to send, in one line."""
    return f"nothing to send: {'; '.join(kinds_of(left_out)) or 'no file was found'}"
