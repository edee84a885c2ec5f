"""From figures to what is shown: rows beside the published ones, notes, and the JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tasks.bench.figures import Figures, removed
from tasks.bench.watch import BURST_TOKENS, DEFINITION, GAP_S
from worker.log.entries import Tokens

UNKNOWN = "-"


class Row(msgspec.Struct, frozen=True):
    """One line of the table. `sdk` is empty when there is no such contender in the run."""

    figure: str
    published: str
    ours: str
    sdk: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run has to say. `pace` holds the times, `ours` and `sdk` the rates; against a
    real provider `pace` and `ours` are the same samples."""

    model: str
    simulated: bool
    factor: float
    efforts: tuple[str, ...]
    asked: int
    concurrency: int
    complete: bool
    stopped: str
    cost: str
    versions: dict[str, str | None]
    pace: Figures
    ours: Figures
    sdk: Figures | None
    judged: bool
    #: What the simulator wants to be paid for, where one call of the command ran all of it.
    billed: Tokens | None = None
    billed_sdk: Tokens | None = None

    @property
    def ok(self) -> bool:
        """True when everything that was asked for came, and came right."""
        return self.complete and self.ours.good == self.ours.samples > 0

    @property
    def sdk_name(self) -> str:
        return f"openai {self.versions['openai'] or 'SDK'}"


def rows(report: Report) -> list[Row]:
    return [*_times(report), *_rates(report), *_rest(report), *_tokens(report)]


def _times(report: Report) -> list[Row]:
    pace, mark = report.pace, UNKNOWN if report.sdk else ""
    return [
        Row(
            "time to first token, p50 / p95",
            "47 ms / 138 ms",
            f"{ms(pace.first.quantile(0.5))} / {ms(pace.first.quantile(0.95))}",
            mark,
        ),
        Row(
            "inter-token, visible, p50 / p95",
            "38 ms / 91 ms",
            f"{ms(pace.visible.quantile(0.5))} / {ms(pace.visible.quantile(0.95))}",
            mark,
        ),
        Row(
            "inter-token, in a reasoning burst, p50",
            "22 ms",
            ms(pace.thinking.quantile(0.5)),
            mark,
        ),
    ]


def _rates(report: Report) -> list[Row]:
    rows = [
        _both(
            report,
            "timeout rate",
            "1.7 % SDK, 0.04 % patched",
            lambda figures: percent(figures.rate(figures.timeouts)),
        ),
        _both(
            report,
            "success on 4,000-token reasoning tasks",
            "99.91 %",
            lambda figures: _share(figures.heavy_good, figures.heavy),
        ),
    ]
    if report.judged:
        wrong = "silently wrong: another text, and no error"
        rows += [
            _both(report, "exact texts", UNKNOWN, lambda each: _share(each.exact, each.samples)),
            _both(report, wrong, UNKNOWN, lambda each: f"{each.wrong:,}"),
        ]
    else:
        rows.append(Row("completed", UNKNOWN, _share(report.ours.good, report.ours.samples)))
    return [
        *rows,
        _both(report, "errors beside time-outs", UNKNOWN, lambda each: f"{each.errors:,}"),
    ]


def _both(report: Report, name: str, published: str, shown: Callable[[Figures], str]) -> Row:
    """One figure of ours, and of the SDK if that ran beside."""
    return Row(name, published, shown(report.ours), shown(report.sdk) if report.sdk else "")


def _rest(report: Report) -> list[Row]:
    mark = UNKNOWN if report.sdk else ""
    found = [
        Row(
            "interrupted answers that ended well all the same",
            UNKNOWN,
            f"{report.ours.recovered:,} of {report.ours.hit:,}",
            mark,
        )
    ]
    for each in report.pace.clustering:
        found.append(
            Row(
                f"clustering events a sample, effort {each.effort}",
                UNKNOWN,
                f"{each.events:.2f} ({each.gaps:.2f} with a gap, {each.bursts:.2f} with a burst)",
                mark,
            )
        )
    share = removed(report.pace.clustering)
    found.append(
        Row(
            "clustering events that effort low removes",
            "about 78 %",
            UNKNOWN if share is None else f"{100 * share:.1f} %",
            mark,
        )
    )
    return found


def _tokens(report: Report) -> list[Row]:
    ours, sdk = report.ours, report.sdk
    found = [
        Row(
            "output tokens of all attempts",
            UNKNOWN,
            f"{ours.tokens.output:,} ({ours.wasted.output:,} in interrupted ones)",
            f"{sdk.tokens.output:,} that it was told of" if sdk else "",
        )
    ]
    if report.judged:
        bills = (report.billed, report.billed_sdk)
        told = [UNKNOWN if bill is None else f"{bill.output:,}" for bill in bills]
        found.append(
            Row("output tokens that the provider billed", UNKNOWN, told[0], told[1] if sdk else "")
        )
    return found


def notes(report: Report) -> list[str]:
    """What a reader must know to take the figures for what they are."""
    efforts = " and ".join(f"effort {effort}" for effort in report.efforts)
    turns = " in turn" if len(report.efforts) > 1 else ""
    said = _of_simulation(report) if report.simulated else []
    said += [
        _TIMES.format(count=report.pace.samples, definition=DEFINITION),
        (
            f"Asked with {efforts}{turns}; every second task"
            f" asks for 4,000 tokens of reasoning{_thought(report)}."
        ),
        _OUR_WAY,
    ]
    if not report.judged:
        said.append("Only the simulator tells what it sent, so no text of this run was judged.")
    return said


_TIMES = (
    "Times are of {count:,} samples at the provider's own pace, as a live reader of the job sees"
    " them. First token: from the attempt's begin to its first token of any kind. {definition}"
    " Reasoning tokens are counted by delta. Visible inter-token time is that between two deltas"
    " which no such event parts. Reasoning is reported about every half second; its inter-token"
    " time is such a stretch by the tokens it brought."
)
_OUR_WAY = (
    "longstream is measured the whole way: submit, waiting line, worker, log, reader. What its"
    " worker recovers is no failure; the time that takes is not in the times above."
)
_HITS = (
    "Simulated: the provider is the simulator, which knows what it was to send. 1.7 % of all"
    " streams are hit: a third each fall silent for good, are reset by a proxy in a pause of 8 to"
    " 10 s, or are ended by one cleanly, 60 to 80 tokens before their end."
)
_SHORTENED = (
    "The rates are of {count:,} samples with every silence of the simulator divided by {factor:g},"
    " and by the same the time-outs for silence of both contenders: for longstream 120 s without a"
    " byte become {ours:.3g} s, for the SDK its read time-out of 600 s becomes {theirs:.3g} s."
    " Time-outs for connections and waits between attempts are as always."
)


def _of_simulation(report: Report) -> list[str]:
    factor = report.factor
    shortened = _SHORTENED.format(
        count=report.ours.samples, factor=factor, ours=120 / factor, theirs=600 / factor
    )
    if report.sdk is not None:
        contender = (
            f"{report.sdk_name} has its defaults, 2 retries among them, and is read in a loop as"
            " its pages show; a text that ends without an exception counts as success."
        )
    elif report.versions["openai"] is None:
        contender = "The official SDK is not installed: pip install 'longstream[bench]'."
    else:
        contender = "The official SDK was left out of this run."
    return [_HITS, shortened, contender]


def _thought(report: Report) -> str:
    found = [
        f"{each.reasoning_tokens:,.0f} with effort {each.effort}"
        for each in report.pace.clustering
        if each.reasoning_tokens is not None
    ]
    return f", and got {', '.join(found)} (medians)" if found else ""


def totals(report: Report) -> str:
    tokens, wasted = report.ours.tokens, report.ours.wasted
    return (
        f"{report.ours.samples:,} of {report.asked:,} samples, {report.concurrency} at a time, in "
        f"{report.ours.seconds:,.0f} s; {tokens.input:,} input and {tokens.output:,} output tokens "
        f"({tokens.reasoning:,} reasoning), {wasted.input + wasted.output:,} tokens of them in "
        f"attempts that were interrupted; {report.cost}"
    )


def as_json(report: Report) -> bytes:
    """One object: the rows as shown, and the figures they are made of."""
    raw: dict[str, Any] = msgspec.to_builtins(report, str_keys=True)
    for name in ("pace", "ours", "sdk"):
        if raw[name] is not None:
            raw[name] |= _quantiles(getattr(report, name))
    raw["definitions"] = {"clustering": DEFINITION, "gap_s": GAP_S, "burst_tokens": BURST_TOKENS}
    raw["table"] = [msgspec.to_builtins(row) for row in rows(report)]
    return msgspec.json.encode(raw | {"ok": report.ok, "notes": notes(report)})


def _quantiles(of: Figures) -> dict[str, Any]:
    """In place of the histograms, which are long and of no use to a script."""
    named = ("first", "first_visible", "visible", "thinking", "lasting")
    return {
        name: {
            f"p{round(100 * share)}_s": getattr(of, name).quantile(share)
            for share in (0.5, 0.95, 0.99)
        }
        for name in named
    }


def ms(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.2f} %"


def _share(count: int, of: int) -> str:
    if not of:
        return UNKNOWN
    # Rounding must not make a loss look like none.
    shown = 100 * count / of
    text = f"{shown:.2f}" if count == of or shown < 99.995 else "99.99"
    return f"{text} % ({count:,} of {of:,})"
