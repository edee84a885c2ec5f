"""The pictures of the page: SVG with a title and a description, and the same data as a table. Pure.

Colours are variables of the page's style, so that they follow the reader's theme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tasks.bench.histogram import Histogram
from tasks.bench.report import ms

_WIDTH, _HEIGHT = 640, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 12, 12, 62, 30
#: Buckets of 2 % in one bar: a bar then spans about 10 %.
_BAR = 5
_ROW, _LABEL = 26, 250
#: The share of values at either end that stands in the table only.
_FAR = 0.001


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line of a distribution. `seconds` None: it is not drawn."""

    label: str
    seconds: float | None
    published: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar chart. `kind` names its colour: ours or theirs."""

    label: str
    value: float
    shown: str
    kind: str = "ours"


def distribution(name: str, title: str, histogram: Histogram, marks: Sequence[Mark]) -> str:
    """How durations are spread, on a logarithmic axis."""
    bars = histogram.bars(_BAR)
    if not bars:
        return _figure(name, title, "", "Nothing of it was seen.", "")
    drawn = [mark for mark in marks if mark.seconds is not None]
    near = [bar for bar in bars if _is_near(bar, histogram)]
    low = min([near[0][0], *(mark.seconds or 0 for mark in drawn)])
    high = max([near[-1][1], *(mark.seconds or 0 for mark in drawn)]) * 1.02
    across = _Axis(low, high)
    most = max(count for *_, count in bars)
    parts = [_bar(across, each, most) for each in near if each[2]]
    parts += _ticks(across)
    parts += [_mark(across, mark, place) for place, mark in enumerate(drawn)]
    told = ", ".join(f"{mark.label} {ms(mark.seconds)}" for mark in drawn)
    described = f"{histogram.total:,} values from {ms(bars[0][0])} to {ms(bars[-1][1])}; {told}."
    svg = _svg(name, title, described, _HEIGHT, parts)
    rows = [(f"{ms(start)} to {ms(end)}", f"{count:,}") for start, end, count in bars if count]
    return _figure(name, title, svg, described, table(("from, to", "values"), rows))


def chart(name: str, title: str, bars: Sequence[Bar], said: str) -> str:
    """Rows of bars with their values beside them."""
    most = max((bar.value for bar in bars), default=0.0) or 1.0
    room = _WIDTH - _LABEL - 110
    parts = []
    for place, bar in enumerate(bars):
        y = 8 + place * _ROW
        wide = max(1, room * bar.value / most)
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>'
            f'<rect x="{_LABEL}" y="{y}" width="{wide:.1f}" height="18" class="{bar.kind}"/>'
            f'<text x="{_LABEL + wide + 6:.1f}" y="{y + 14}">{escape(bar.shown)}</text>'
        )
    svg = _svg(name, title, said, 16 + _ROW * len(bars), parts)
    return _figure(name, title, svg, said, table(("", "value"), [(b.label, b.shown) for b in bars]))


def _is_near(bar: tuple[float, float, int], histogram: Histogram) -> bool:
    """Whether it is drawn: a few far values would press all others together."""
    start, end, _ = bar
    least, most = histogram.quantile(_FAR), histogram.quantile(1 - _FAR)
    assert least is not None
    assert most is not None
    return end >= least and start <= most


class _Axis:
    """From seconds to a place across the picture."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self._from = math.log(low)
        self._scale = (_WIDTH - _LEFT - _RIGHT) / (math.log(high) - self._from)

    def at(self, seconds: float) -> float:
        return _LEFT + (math.log(seconds) - self._from) * self._scale


def _bar(across: _Axis, bar: tuple[float, float, int], most: int) -> str:
    start, end, count = bar
    x, tall = across.at(start), (_HEIGHT - _TOP - _BOTTOM) * count / most
    y = _HEIGHT - _BOTTOM - tall
    wide = across.at(end) - x - 1
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}" class="ours"/>'


def _ticks(across: _Axis) -> list[str]:
    y = _HEIGHT - _BOTTOM
    found = [f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" class="axis"/>']
    digits = (1, 2, 5) if across.high / across.low < 300 else (1,)
    for power in range(-6, 5):
        for digit in digits:
            at = digit * 10.0**power
            if across.low <= at <= across.high:
                x = across.at(at)
                found.append(
                    f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + 5}" class="axis"/>'
                    f'<text x="{x:.1f}" y="{y + 19}" text-anchor="middle">{_tick(at)}</text>'
                )
    return found


def _tick(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{1000 * seconds:g} ms"


def _mark(across: _Axis, mark: Mark, place: int) -> str:
    """Each label has a row of its own, so that neighbours do not cover each other."""
    assert mark.seconds is not None
    x, kind = across.at(mark.seconds), "published" if mark.published else "measured"
    y = 12 + 14 * place
    late = x > _WIDTH * 0.6
    anchor, beside = ("end", x - 4) if late else ("start", x + 4)
    return (
        f'<line x1="{x:.1f}" y1="{y - 9}" x2="{x:.1f}" y2="{_HEIGHT - _BOTTOM}" class="{kind}"/>'
        f'<text x="{beside:.1f}" y="{y}" text-anchor="{anchor}" class="{kind}">'
        f"{escape(mark.label)} {ms(mark.seconds)}</text>"
    )


def _svg(name: str, title: str, said: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height}" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(said)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _figure(name: str, title: str, svg: str, said: str, data: str) -> str:
    shown = f"<details><summary>The same as a table</summary>{data}</details>" if data else ""
    return (
        f'<figure id="{name}"><h3>{escape(title)}</h3>{svg}'
        f"<figcaption>{escape(said)}</figcaption>{shown}</figure>"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>"
        f'<th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
