"""docs/events.md and the code name the same events, with the same levels and fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}
NAME = re.compile(r"[a-z]+\.(?:[a-z_]+|\*)")

Told = dict[str, tuple[set[str], set[str]]]


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """Each call of a logger: event, level and fields."""
    for top in ("settings", "worker", "tasks"):
        for path in sorted((ROOT / top).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                logger = ast.unparse(node.func.value)
                if node.func.attr in LEVELS and re.search(r"(^|\.|_)log$|get_logger\(", logger):
                    level = "error" if node.func.attr == "exception" else node.func.attr
                    fields = {keyword.arg or "..." for keyword in node.keywords} - {"exc_info"}
                    yield event_of(node.args[0]), level, fields


def event_of(argument: ast.expr) -> str:
    if isinstance(argument, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else "*" for v in argument.values]
        return "".join(map(str, parts))
    assert isinstance(argument, ast.Constant), ast.unparse(argument)
    return str(argument.value)


def in_code() -> Told:
    found: Told = {}
    for event, level, fields in calls():
        levels, known = found.setdefault(event, (set(), set()))
        levels.add(level)
        known |= fields
    # Written past structlog, which is what failed.
    found["log.unreadable"] = ({"error"}, {"logger"})
    return found


def in_docs() -> Told:
    rows = re.findall(
        r"^\| `([^`]+)` \| ([a-z, ]+) \| ([^|]+) \| [A-Z][^|]+\. ?\|$",
        (ROOT / "docs" / "events.md").read_text("utf-8"),
        re.MULTILINE,
    )
    return {
        event: (set(levels.split(", ")), set(re.findall(r"`(\w+)`|(?<= )(\.\.\.)", fields)))
        for event, levels, fields in rows
    }


def test_the_documentation_lists_every_event_with_its_levels_and_fields() -> None:
    documented = {
        event: (levels, {one or other for one, other in fields})  # type: ignore[misc]
        for event, (levels, fields) in in_docs().items()
    }

    assert documented == in_code()


def test_events_are_dotted_names() -> None:
    assert [event for event in in_code() if not NAME.fullmatch(event)] == []
