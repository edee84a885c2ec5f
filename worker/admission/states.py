"""The packed numbers that the scripts keep, read from outside; only the scripts write them.

`ScopeState` is states.lua's array of one scope, `Progress` progress.lua's of the line.
"""

from __future__ import annotations

import struct

import msgspec

from worker.admission.buckets import CELLS

_STATE = struct.Struct(f"<8d{2 * (2 + CELLS)}d")
_ROLLING = struct.Struct(f"<{2 + CELLS}d")
_PROGRESS = struct.Struct("<12d")


class Window(msgspec.Struct, frozen=True):
    """What was taken lately: the number of the youngest piece, and the units of each."""

    piece: int = 0
    pieces: tuple[float, ...] = (0.0,) * CELLS


class ScopeState(msgspec.Struct, frozen=True):
    """An account, or some models of one. The tats are those of the pace; see buckets.py."""

    used: int = 0
    requests_tat: float = 0.0
    tokens_tat: float = 0.0
    day: int = 0
    today: int = 0
    heard: int = 0
    requests: Window = Window()
    tokens: Window = Window()


class Progress(msgspec.Struct, frozen=True):
    """How far the line has come: virtual times, and ms that usually lie between two grants."""

    reached: float = 0.0
    again: tuple[float, ...] = (0.0, 0.0, 0.0)
    pace: float = 0.0


def scope_state(stored: bytes | None) -> ScopeState:
    if stored is None:
        return ScopeState()
    used, requests, tokens, day, today, _credit, _credit_at, heard, *windows = _STATE.unpack(stored)
    return ScopeState(
        used=int(used),
        requests_tat=requests,
        tokens_tat=tokens,
        day=int(day),
        today=int(today),
        heard=int(heard),
        requests=_window(windows[: 2 + CELLS]),
        tokens=_window(windows[2 + CELLS :]),
    )


def rolling_day(stored: bytes | None) -> Window:
    return Window() if stored is None else _window(list(_ROLLING.unpack(stored)))


def progress(stored: bytes | None) -> Progress:
    if stored is None:
        return Progress()
    numbers = _PROGRESS.unpack(stored)
    return Progress(reached=numbers[0], again=numbers[1:4], pace=numbers[8])


def _window(numbers: list[float]) -> Window:
    return Window(piece=int(numbers[0]), pieces=tuple(numbers[2:]))
