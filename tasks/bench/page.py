"""The report as one HTML page: nothing is loaded from elsewhere, and no script runs. Pure."""

from __future__ import annotations

from html import escape

from tasks.bench import report as reports
from tasks.bench.figures import Figures
from tasks.bench.histogram import Histogram
from tasks.bench.plots import Bar, Mark, chart, distribution, table
from tasks.bench.report import Report, percent
from tasks.bench.watch import DEFINITION

#: The browser itself refuses what the page promises not to do.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2024; --soft: #5a636d;
  --line: #d5dae0; --ours: #1f6feb; --theirs: #b45309; --mark: #a4133c; --good: #136f3a;
  --band: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e9ec; --soft: #a3adb7;
  --line: #3a424b; --ours: #6cb0ff; --theirs: #f0a35c; --mark: #ff8fa8; --good: #6fd69a;
  --band: #1d2226; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0 0 .4rem; }
p { margin: .4rem 0; } .soft, figcaption { color: var(--soft); }
.verdict { font-weight: 600; color: var(--mark); } .verdict.ok { color: var(--good); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-weight: 400; }
thead th { font-weight: 600; border-bottom-width: 2px; }
.plots { display: grid; gap: 1.2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
figure { margin: 0; padding: .8rem; background: var(--band); border-radius: .5rem; min-width: 0; }
figcaption { font-size: .9rem; } details { font-size: .9rem; margin-top: .4rem; }
summary { cursor: pointer; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } .ours { fill: var(--ours); } .theirs { fill: var(--theirs); }
.axis { stroke: var(--soft); } line.measured { stroke: var(--ink); stroke-width: 1.5; }
line.published { stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 4 3; }
svg text.published { fill: var(--mark); }
"""


def page(report: Report, made: str) -> str:
    """The whole page. `made`: when and with which command, for people."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>longstream bench: {escape(report.model)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>longstream bench</h1>
<p>{escape(_what(report))}</p>
<p class="soft">{escape(made)}</p>
{_verdict(report)}
</header>
<main>
<section aria-labelledby="table"><h2 id="table">Beside the published figures</h2>
<div class="wide">{_rows(report)}</div>
<p class="soft">{escape(reports.totals(report))}.</p></section>
<section aria-labelledby="spread"><h2 id="spread">Distributions</h2>
<div class="plots">{"".join(_plots(report))}</div></section>
<section aria-labelledby="failures"><h2 id="failures">What went wrong</h2>
{_failures(report)}</section>
<section aria-labelledby="notes"><h2 id="notes">How it was measured</h2>
{"".join(f"<p>{escape(note)}</p>" for note in reports.notes(report))}</section>
</main>
</body>
</html>
"""


def _what(report: Report) -> str:
    source = "the provider simulator" if report.simulated else "the configured pools"
    return f"{report.model}, {report.ours.samples:,} samples, answered by {source}"


def _verdict(report: Report) -> str:
    if not report.complete:
        text = f"Not complete: stopped by {report.stopped}."
    elif report.ok:
        text = "Every answer came whole" + (", to the character." if report.judged else ".")
    else:
        missing = report.ours.samples - report.ours.good
        text = f"{missing:,} of {report.ours.samples:,} answers did not come whole."
    return f'<p class="verdict{" ok" if report.ok else ""}">{escape(text)}</p>'


def _rows(report: Report) -> str:
    head = ["figure", "published", "longstream", *([report.sdk_name] if report.sdk else [])]
    return table(
        head,
        [
            (row.figure, row.published, row.ours, *([row.sdk] if report.sdk else []))
            for row in reports.rows(report)
        ],
    )


def _plots(report: Report) -> list[str]:
    pace = report.pace
    return [
        distribution(
            "first",
            "Time to first token",
            pace.first,
            [*_measured(pace.first), *_published(0.047, 0.138)],
        ),
        distribution(
            "visible",
            "Between two visible deltas",
            pace.visible,
            [*_measured(pace.visible), *_published(0.038, 0.091)],
        ),
        distribution(
            "thinking",
            "Between two tokens of a reasoning burst",
            pace.thinking,
            [Mark("p50", pace.thinking.quantile(0.5)), Mark("published p50", 0.022, True)],
        ),
        distribution(
            "visible-first",
            "From submit to the first visible delta",
            pace.first_visible,
            _measured(pace.first_visible),
        ),
        _clustering(pace),
        _outcomes(report),
    ]


def _measured(of: Histogram) -> list[Mark]:
    return [Mark("p50", of.quantile(0.5)), Mark("p95", of.quantile(0.95))]


def _published(half: float, most: float) -> list[Mark]:
    return [Mark("published p50", half, True), Mark("published p95", most, True)]


def _clustering(pace: Figures) -> str:
    bars = [
        Bar(f"effort {each.effort}", each.events, f"{each.events:.2f} a sample")
        for each in pace.clustering
    ]
    return chart("clustering", "Clustering events, by effort", bars, DEFINITION)


def _outcomes(report: Report) -> str:
    bars = []
    for of, name, kind in (
        (report.ours, "longstream", "ours"),
        (report.sdk, report.sdk_name, "theirs"),
    ):
        if of is not None:
            for what, count in _losses(of, judged=report.judged):
                share = of.rate(count) or 0.0
                bars.append(Bar(f"{name}: {what}", share, f"{percent(share)} ({count:,})", kind))
    return chart("outcomes", "Answers that did not come whole", bars, "Shares of all samples.")


def _losses(of: Figures, *, judged: bool) -> list[tuple[str, int]]:
    wrong = [("silently wrong", of.wrong)] if judged else []
    return [("time-outs", of.timeouts), ("other errors", of.errors), *wrong]


def _failures(report: Report) -> str:
    found = []
    for of, name in ((report.ours, "longstream"), (report.sdk, report.sdk_name)):
        if of is None:
            continue
        if not of.details and not of.wrong:
            found.append(f"<p>{escape(name)}: nothing.</p>")
            continue
        rows = [(detail, f"{count:,}") for detail, count in of.details.items()]
        rows += [("a text that is not the one sent, and no error", f"{of.wrong:,}")] * bool(
            of.wrong
        )
        found.append(f"<h3>{escape(name)}</h3>{table(('what its caller got', 'samples'), rows)}")
    return "".join(found)
