"""The scenarios as a table, for people: the command prints it, the documentation holds it."""

from __future__ import annotations

from tasks.local.simulator.scenarios import every


def table() -> str:
    """Every scenario as a row of Markdown."""
    rows = ["| model | dialect | what it does |", "|---|---|---|"]
    for scenario in every().values():
        dialect = "chat, responses" if scenario.dialect == "both" else scenario.dialect
        does = scenario.does.replace("|", "\\|")
        rows.append(f"| `{scenario.name}` | {dialect} | {does} |")
    return "\n".join(rows) + "\n"
