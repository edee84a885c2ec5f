"""The report: its table, its JSON and its page, from samples whose figures are known."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tasks.bench.figures import Figures, figures, removed
from tasks.bench.histogram import of_values
from tasks.bench.page import page
from tasks.bench.plan import task
from tasks.bench.purse import BOUND
from tasks.bench.report import Report, as_json, rows, totals
from tasks.bench.sample import Sample, Verdict
from tasks.bench.table import table
from tasks.bench.watch import BURST_TOKENS, GAP_S
from worker.log.entries import Tokens

EFFORTS = ("low", "medium")
ROOT = Path(__file__).parents[2]
#: Tags that have no end.
_VOID = {"meta", "rect", "line"}


def sample(n: int, verdict: Verdict = Verdict.EXACT, **more: Any) -> Sample:
    asked = task(n, EFFORTS)
    low = asked.effort == "low"
    fields: dict[str, Any] = {
        "phase": "ours",
        "n": n,
        "kind": asked.kind,
        "effort": asked.effort,
        "verdict": verdict,
        "first_s": 0.05,
        "first_visible_s": 2.0,
        "visible": of_values([0.04] * 19 + [0.09]),
        "thinking": of_values([0.022]),
        "clusters": 1 if low else 4,
        "gaps": 1 if low else 4,
        "bursts": 0 if low else 2,
        "characters": 10,
        "tokens": Tokens(input=10, output=100, reasoning=60),
    }
    return Sample(**(fields | more))


LOST = [
    sample(200, Verdict.TIMEOUT, detail="APITimeoutError", phase="sdk"),
    sample(202, Verdict.WRONG, phase="sdk"),
    sample(203, Verdict.ERROR, detail="<script>alert(1)</script>", phase="sdk"),
]


def report(
    ours: list[Sample] | None = None, sdk: list[Sample] | None = None, **more: Any
) -> Report:
    mine = figures("ours", [sample(n) for n in range(200)] if ours is None else ours, 12.0)
    theirs = None if sdk is None else figures("sdk", sdk, 30.0)
    fields: dict[str, Any] = {
        "model": "sim:field",
        "simulated": True,
        "factor": 30.0,
        "efforts": EFFORTS,
        "asked": mine.samples,
        "concurrency": 50,
        "complete": True,
        "stopped": "",
        "cost": "price unknown",
        "versions": {"longstream": "0.1.0", "openai": "3.57.0", "python": "3.11"},
        "pace": mine,
        "ours": mine,
        "sdk": theirs,
        "judged": True,
    }
    return Report(**(fields | more))


def shown(of: Report) -> dict[str, tuple[str, str, str]]:
    return {row.figure: (row.published, row.ours, row.sdk) for row in rows(of)}


def test_the_table_stands_beside_the_published_figures() -> None:
    found = shown(report(sdk=[*(sample(n, phase="sdk") for n in range(197)), *LOST]))

    assert found["time to first token, p50 / p95"][:2] == ("47 ms / 138 ms", "50 ms / 50 ms")
    assert found["inter-token, visible, p50 / p95"][:2] == ("38 ms / 91 ms", "40 ms / 40 ms")
    assert found["inter-token, in a reasoning burst, p50"][:2] == ("22 ms", "22 ms")
    assert found["timeout rate"] == ("1.7 % SDK, 0.04 % patched", "0.00 %", "0.50 %")
    success = found["success on 4,000-token reasoning tasks"]
    assert success == ("99.91 %", "100.00 % (100 of 100)", "98.02 % (99 of 101)")
    assert found["exact texts"][1:] == ("100.00 % (200 of 200)", "98.50 % (197 of 200)")
    assert found["silently wrong: another text, and no error"][1:] == ("0", "1")
    assert found["errors beside time-outs"][1:] == ("0", "1")
    assert found["clustering events that effort low removes"][:2] == ("about 78 %", "75.0 %")


def test_one_loss_among_very_many_never_rounds_to_all() -> None:
    ours = [*(sample(n) for n in range(30_000)), sample(30_000, Verdict.WRONG)]

    assert shown(report(ours))["exact texts"][1] == "99.99 % (30,000 of 30,001)"


def test_wrong_timed_out_and_failed_are_never_good() -> None:
    found = figures("sdk", [sample(0), *LOST], 1.0)

    assert (found.good, found.exact, found.wrong, found.timeouts, found.errors) == (1, 1, 1, 1, 1)
    assert not report([sample(0), sample(1, Verdict.WRONG)]).ok
    assert not report([]).ok
    assert not report(complete=False).ok


def test_recovered_answers_are_told_from_those_that_never_came() -> None:
    found = figures(
        "ours",
        [sample(0, attempts=2), sample(1, Verdict.ERROR, attempts=10), sample(2)],
        1.0,
    )

    assert (found.hit, found.recovered) == (2, 1)


def test_what_interrupted_attempts_used_is_counted_and_shown_apart() -> None:
    taken, lost = Tokens(input=10, output=900, reasoning=400), Tokens(input=5, output=300)
    found = [sample(0, tokens=taken), sample(1, attempts=2, tokens=taken, wasted=lost)]

    told = report(found, billed=Tokens(input=20, output=1_795))

    assert shown(told)["output tokens of all attempts"][1] == "1,800 (300 in interrupted ones)"
    assert shown(told)["output tokens that the provider billed"][1] == "1,795"
    assert "305 tokens of them in attempts that were interrupted" in totals(told)


def test_times_of_a_reader_that_came_late_are_left_out() -> None:
    found = figures("ours", [sample(0), sample(1, timed=False, first_s=9.0)], 1.0)

    assert found.first.total == 1
    assert found.samples == 2


def test_what_was_said_twice_counts_for_no_effort() -> None:
    found = figures("ours", [*(sample(n) for n in range(8)), sample(8, attempts=2, clusters=90)], 1)

    assert removed(found.clustering) == pytest.approx(0.75)


def test_with_one_effort_nothing_is_compared() -> None:
    only = [sample(n) for n in range(40) if task(n, EFFORTS).effort == "low"]

    assert removed(figures("ours", only, 1.0).clustering) is None
    assert shown(report(only))["clustering events that effort low removes"][1] == "-"


def test_a_provider_that_can_not_be_judged_is_not() -> None:
    real = report(simulated=False, judged=False)

    assert "exact texts" not in shown(real)
    assert "no text of this run was judged" in table(real)


@pytest.mark.parametrize(
    ("openai", "says"),
    [(None, "The official SDK is not installed: pip install"), ("3.57.0", "was left out of")],
)
def test_a_contender_that_is_missing_is_said_to_be(openai: str | None, says: str) -> None:
    versions = {"longstream": "0.1.0", "openai": openai, "python": "3.11"}

    assert says in table(report(versions=versions)).replace("\n", " ")


def test_the_json_is_one_object_with_the_quantiles_and_without_long_lists() -> None:
    found: Any = msgspec.json.decode(as_json(report(sdk=LOST)))

    assert found["ours"]["visible"]["p50_s"] == pytest.approx(0.04, rel=0.011)
    assert found["ours"]["timeouts"] == 0
    assert found["sdk"]["wrong"] == 1
    assert found["ok"] is True
    assert len(found["table"]) == len(rows(report()))
    assert "at least 40 reasoning tokens" in found["definitions"]["clustering"]
    assert len(as_json(report(sdk=LOST))) < 12_000


class _Reader(HTMLParser):
    """Fails on what is not closed, and notes what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def read() -> _Reader:
    reader = _Reader()
    reader.feed(page(report(sdk=LOST), "made now"))
    assert reader.open == []
    return reader


def test_the_page_loads_nothing_and_runs_nothing(read: _Reader) -> None:
    tags = {tag for tag, _ in read.seen}
    names = {name for _, attributes in read.seen for name in attributes}

    assert not tags & {"script", "link", "img", "iframe", "object", "image", "use"}
    assert not names & {"src", "href", "xlink:href", "srcset", "action"}
    assert not [name for name in names if name.startswith("on")]
    text = page(report(), "made now")
    assert "url(" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in text


def test_every_picture_is_told_in_words_and_as_a_table(read: _Reader) -> None:
    pictures = [attributes for tag, attributes in read.seen if tag == "svg"]
    ids = {attributes["id"] for _, attributes in read.seen if "id" in attributes}

    assert len(pictures) == 6
    for picture in pictures:
        assert picture["role"] == "img"
        assert set((picture["aria-labelledby"] or "").split()) <= ids
    assert sum(tag == "details" for tag, _ in read.seen) == 6
    assert sum(tag == "title" for tag, _ in read.seen) == 7


def test_the_page_follows_the_theme_and_names_no_colour_outside_it() -> None:
    text = page(report(sdk=LOST), "made now")
    style = text.partition("<style>")[2].partition("</style>")[0]

    assert "prefers-color-scheme: dark" in style
    body = re.sub(r":root \{[^}]*\}", "", style)
    assert not re.findall(r"#[0-9a-f]{3,6}\b", body)
    assert not re.findall(r'(?:fill|stroke)="', text)


def test_what_a_provider_said_is_text_on_the_page() -> None:
    text = page(report(sdk=LOST), "made <now>")

    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "made &lt;now&gt;" in text


def test_a_page_of_nothing_says_so() -> None:
    nothing: Figures = figures("ours", [], 0.0)
    empty = report([], pace=nothing, complete=False, stopped="the spend limit of 1 USD")

    text = page(empty, "made now")
    assert "Nothing of it was seen." in text
    assert "Not complete: stopped by the spend limit of 1 USD." in text
    assert table(empty)


def test_the_readme_quotes_what_was_measured() -> None:
    page = (ROOT / "docs" / "bench.md").read_text("utf-8").partition("## Measured")[2]
    readme = (ROOT / "README.md").read_text("utf-8")
    quoted = readme.partition("<!-- bench -->")[2].partition("<!-- end of bench -->")[0]
    lines = [line for line in quoted.splitlines() if line.startswith("|")]

    assert len(lines) == 10
    assert set(lines) <= set(page.splitlines())


def test_the_page_of_the_documentation_defines_what_is_counted() -> None:
    page = " ".join((ROOT / "docs" / "bench.md").read_text("utf-8").split())

    assert f"a gap of at least {GAP_S:g} s between two visible deltas" in page
    assert f"a burst of at least {BURST_TOKENS} reasoning tokens between them" in page
    assert f"({BOUND.output:,} output tokens)" in page
