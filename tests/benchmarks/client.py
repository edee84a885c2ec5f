"""The client beside the official SDK: how fast, how soon, and how right.

(a) Decoding, JSON and picking, and framing alone, in events a second; (b) the delay of a visible
delta that stands behind a 70 KB burst in the same read; (c) what each does with the 63 quirks of
providers, each produced by a real simulator process. Needs `pip install 'longstream[bench]'` for
the contenders; without them it measures this client alone and says what is missing.

    python tests/benchmarks/client.py [--quick] [--json | --markdown]
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import structlog

from tests.benchmarks.quirk_table import measuring, showing as quirks_showing
from tests.benchmarks.streaming import contenders, showing, speed
from tests.harness.benchmark import Report, Target, installed, options, repetitions, table, versions

#: Where the speed targets apply: realistic events, and a whole burst in one read.
CASE = ("realistic", "70 KB")

_PAGE = """# The client, measured

Made by `python tests/benchmarks/client.py --markdown`, and not written by hand.
{heading}

{short}

## Speed

CPU time of one process. Every run is checked: the number of events and the exact visible text. In
brackets, how many times longer than this client. Contenders run in turn on the same bytes: bursts
of 70 KB of reasoning events, one visible delta behind each. Realistic events have about 360 bytes,
terse ones about 51.

{speed}

## Quirks

Each quirk is one known fault of a provider, a proxy or a server, produced byte by byte by the
[simulator](simulator.md), which also tells what text was meant. A quirk has up to eleven scenarios,
most of them in both dialects, and a client is as good as its worst run.

- **right**: the exact text, and the end the provider meant; or, where there is no answer, an
  error of the client's own that comes in time and says what can be done.
- **wrong but loud**: an error where none belongs, one that misleads, or a library's exception that
  leaked out. The caller knows that something happened.
- **silently wrong**: text lost, added or garbled, an end or a usage lost, a cut answer taken for
  whole, a request posted twice, or an endless wait; and nothing said.

The SDK is read in a loop as its documentation shows it, to the end of the stream, and by what its
types promise; an error event it hands over counts as told. It has its defaults, but for
`max_retries=0` where a quirk is about one response (all but R1-R6), and a time-out of one second
instead of ten minutes where it would wait (Q29, Q48, R7). In Q41 this client is told that the
model writes think tags into its text, which the SDK has no way to be told. This client does not
retry by itself: it tells a scheduler whether and when, and that is what R1-R6 compare with the
SDK's own retries.

{quirks}
"""


@dataclass(slots=True)
class Found:
    """All that was measured."""

    decoding: list[speed.Cell]
    framing: list[speed.Cell]
    delays: list[speed.Cell]
    rows: list[measuring.Row]


def measured(times: int, *, quick: bool) -> Found:
    """Runs everything. Progress goes to stderr."""
    bursts = speed.QUICK_BURSTS if quick else speed.BURSTS
    clients = [measuring.CLIENT, *([measuring.SDK] if installed("openai") else [])]
    _say("decoding")
    decoding = speed.decoding(times, bursts)
    _say("framing")
    framing = speed.framing(times, bursts)
    _say("delays")
    delays = speed.delays(times)
    _say("quirks")
    with measuring.simulators() as places:
        rows = asyncio.run(measuring.measure(places, clients, quick=quick))
    return Found(decoding, framing, delays, rows)


def targets(found: Found) -> list[Target]:
    shape, reads = CASE
    sdk_rate = speed.value(found.decoding, contenders.SDK, shape, reads)
    our_rate = speed.value(found.decoding, contenders.CLIENT, shape, reads)
    sdk_frames = speed.value(found.framing, contenders.DECODER, shape, reads)
    our_frames = speed.value(found.framing, contenders.CLIENT, shape, reads)
    sdk_delay = speed.value(found.delays, contenders.SDK, shape, speed.ONE_READ)
    our_delay = speed.value(found.delays, contenders.CLIENT, shape, speed.ONE_READ)
    right = quirks_showing.right(found.rows, measuring.CLIENT)
    return [
        Target("decode, JSON and pick", 50, _ratio(our_rate, sdk_rate), "x the SDK", "higher"),
        Target("framing alone", 9, _ratio(our_frames, sdk_frames), "x the SDK's", "higher"),
        Target("delay behind a burst", 0.02, _ratio(our_delay, sdk_delay), "of the SDK's", "lower"),
        Target("quirks right", len(found.rows), right, "quirks", "higher"),
    ]


def report(found: Found, times: int, *, quick: bool) -> Report:
    cells = {"decoding": found.decoding, "framing": found.framing, "delays": found.delays}
    return Report(
        benchmark="client",
        quick=quick,
        repetitions=times,
        versions=versions("openai", "httpx-sse", "httpx", "msgspec"),
        targets=targets(found),
        figures={name: [vars_of(cell) for cell in value] for name, value in cells.items()}
        | {"quirks": quirks_showing.as_json(found.rows)},
    )


def vars_of(cell: speed.Cell) -> dict[str, str | float]:
    return {
        "shape": cell.shape,
        "reads": cell.reads,
        "contender": cell.contender,
        "value": cell.value,
    }


def page(found: Found, result: Report) -> str:
    """The whole of docs/client.md."""
    version = result.versions["openai"]
    return _PAGE.format(
        heading=result.heading(),
        short=short(found, version),
        speed=showing.everything(found.decoding, found.framing, found.delays),
        quirks=quirks_showing.full(found.rows, version),
    )


def short(found: Found, version: str | None) -> str:
    """The figures the targets are about, as a small Markdown table."""
    shape, reads = CASE
    lines = (
        ("decode, JSON and pick, events a second", found.decoding, contenders.SDK, reads, _whole),
        ("framing alone, events a second", found.framing, contenders.DECODER, reads, _whole),
        (
            "delay of a visible delta behind a burst",
            found.delays,
            contenders.SDK,
            speed.ONE_READ,
            _milliseconds,
        ),
    )
    rows = [
        (what, *(shown(speed.value(cells, who, shape, size)) for who in (contenders.CLIENT, sdk)))
        for what, cells, sdk, size, shown in lines
    ]
    counts = [
        quirks_showing.counts(found.rows, client) for client in (measuring.CLIENT, measuring.SDK)
    ]
    quirks = f"{len(found.rows)} quirks: right, wrong but loud, silently wrong"
    return table(
        ("70 KB bursts of reasoning", contenders.CLIENT, f"openai {version or 'SDK'}"),
        [*rows, (quirks, *counts)],
    )


def main() -> int:
    parser = options(__doc__ or "")
    parser.add_argument("--markdown", action="store_true", help="print docs/client.md")
    chosen = parser.parse_args()
    # What the client tolerates is its log's business; here it would drown the tables.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    times = repetitions(quick=chosen.quick)
    found = measured(times, quick=chosen.quick)
    result = report(found, times, quick=chosen.quick)
    if chosen.json:
        print(result.as_json())
    elif chosen.markdown:
        print(page(found, result), end="")
    else:
        print(page(found, result).partition("## Speed")[2].lstrip())
        print(result.heading(), result.verdicts(), sep="\n")
    return 0


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one / other


def _whole(value: float | None) -> str:
    return showing.MISSING if value is None else f"{value:,.0f}"


def _milliseconds(value: float | None) -> str:
    return showing.MISSING if value is None else f"{value * 1000:.2f} ms"


def _say(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
