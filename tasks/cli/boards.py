"""How a run of several jobs is shown while it runs: lines in a pipe, or objects.

A board looks at the jobs' views when it is told that one has changed; it never changes them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from settings.prices import Price
from tasks.cli.deliver import line_of_file
from tasks.cli.prepare import say
from tasks.runs.delivery import BAD, FileDone
from tasks.runs.progress import JobView, tokens_of_run
from worker.ledger.cost import NOTHING, Cost, cost_of, exact


class Board(Protocol):
    """Is told what happens, in order."""

    def changed(self, view: JobView) -> None: ...

    def file(self, done: FileDone) -> None: ...

    def say(self, line: str) -> None: ...

    def close(self) -> None: ...


class Scene(msgspec.Struct, frozen=True):
    """What every board shows: the jobs, what became of files, and what a token costs."""

    run_id: str
    views: Mapping[str, JobView]
    done: Mapping[str, FileDone]
    price: Price
    simulated: bool = False


def board_for(scene: Scene, *, json: bool) -> Board:
    """The board that fits where the output goes."""
    if json:
        return JsonBoard(scene)
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from tasks.cli.table import TableBoard

        return TableBoard(scene)
    return LineBoard(scene)


class LineBoard:
    """A line for each file that is done and each job that begins anew or ends badly."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._told: dict[str, str] = {}
        self._shared = ""

    def changed(self, view: JobView) -> None:
        line = _news(view)
        if not line or self._told.get(view.id) == line:
            return
        self._told[view.id] = line
        if view.state == "ended":
            say(f"job {view.id} {line}")
        elif line != self._shared:
            # What many jobs wait for alike is said once.
            self._shared = line
            say(f"job {view.id} {line}")

    def file(self, done: FileDone) -> None:
        say(line_of_file(done))

    def say(self, line: str) -> None:
        say(line)

    def close(self) -> None:
        say(totals(self._scene))


class JsonBoard:
    """One object a line: jobs as they change, files as they are done."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._told: dict[str, dict[str, Any]] = {}

    def changed(self, view: JobView) -> None:
        said = _as_json(view)
        gist = {name: value for name, value in said.items() if name not in ("thinking", "chars")}
        if self._told.get(view.id) != gist:
            self._told[view.id] = gist
            _write(said)

    def file(self, done: FileDone) -> None:
        _write({"type": "file", **msgspec.to_builtins(done)})

    def say(self, line: str) -> None:
        sys.stderr.write(f"longstream: {line}\n")

    def close(self) -> None:
        return


def cost_so_far(view: JobView, price: Price) -> Cost:
    """What a job costs in all: what it was sent, has thought and said, and what was thrown away.
    Reckoned with `price` until its record tells."""
    if (known := view.cost) is not None:
        return Cost(exact(known.usd), known.unpriced_tokens, known.approximate)
    cost = cost_of(view.tokens, price)
    running = view.state != "ended"
    return replace(cost, approximate=cost.approximate or (running and cost.usd > 0))


def _as_json(view: JobView) -> dict[str, Any]:
    ready = list(view.ready)
    said: dict[str, Any] = {"type": "job", "job": view.id, "state": view.state}
    said |= {"attempt": view.attempt, "key": view.key, "place": view.place, "ready": ready}
    said |= {"thinking": view.thinking, "chars": view.chars}
    if view.outcome:
        usage = None if view.usage is None else msgspec.to_builtins(view.usage)
        cost = None if view.cost is None else msgspec.to_builtins(view.cost)
        said |= {"outcome": view.outcome, "reason": view.reason, "usage": usage, "cost": cost}
    return said


def _write(fields: Mapping[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(fields).decode() + "\n")
    sys.stdout.flush()


def _news(view: JobView) -> str:
    """What is worth a line about a job; what ticks is not."""
    if view.state == "ended":
        if view.outcome == "completed":
            return ""
        return f"{view.outcome}: {view.reason}" if view.reason else view.outcome
    if view.state == "running":
        return f"goes on with attempt {view.attempt} on key {view.key}" if view.attempt > 1 else ""
    if view.state == "waiting":
        return ""
    return f"{view.state}: {view.detail}"


def totals(scene: Scene) -> str:
    """One line: how far the run is, and what it took."""
    views = list(scene.views.values())
    files = sum(len(view.paths) for view in views)
    states = [view.state for view in views]
    bad = sum(done.state in BAD for done in scene.done.values())
    used = tokens_of_run(views)
    parts = [
        f"run {scene.run_id}: {len(scene.done):,} of {files:,} files done",
        f"{states.count('ended'):,} of {len(views):,} jobs ended",
    ]
    if running := states.count("running"):
        parts.append(f"{running:,} running")
    if waiting := states.count("waiting"):
        parts.append(f"{waiting:,} waiting")
    if bad:
        parts.append(f"{bad:,} not taken")
    cost = sum((cost_so_far(view, scene.price) for view in views), NOTHING)
    parts.append(f"{used.input + used.output:,} tokens, {cost}")
    if scene.simulated:
        parts.append("simulated")
    return ", ".join(parts)
