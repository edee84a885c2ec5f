"""The report for a terminal or a pipe: one table, and how to take it. Pure."""

from __future__ import annotations

import textwrap

from tasks.bench import report as reports
from tasks.bench.report import Report

_COLUMNS = 100


def table(report: Report) -> str:
    head = ["figure", "published", "longstream", *([report.sdk_name] if report.sdk else [])]
    lines = [head]
    for row in reports.rows(report):
        lines.append([row.figure, row.published, row.ours, *([row.sdk] if report.sdk else [])])
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    shown = ["  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)) for line in lines]
    said = [reports.totals(report), *reports.notes(report)]
    if not report.complete:
        said.insert(0, f"not complete: stopped by {report.stopped}")
    wrapped = [textwrap.fill(note, _COLUMNS, break_on_hyphens=False) for note in said]
    return "\n".join([line.rstrip() for line in shown] + [""] + ["\n\n".join(wrapped)])
