"""Templates, and how values are written for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from worker.log.status import starting_in

_AGES = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
#: Characters of an id that are shown whole.
_BRIEF = 18


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tasks.gateway.page"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        lstrip_blocks=True,
    )
    made.filters |= {
        "ago": _ago,
        "exact": _exact,
        "count": _count,
        "starting": _starting,
        "brief": brief,
        "lasting": _lasting,
    }
    return made


def rendered(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    html = _environment().get_template(template).render(**values)
    return HTMLResponse(html, status, {"Cache-Control": "no-store"})


def _ago(at_ms: int) -> Markup:
    """A time for people, with the exact one for everybody else."""
    exact = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    passed_s = max(0.0, time.time() - at_ms / 1000)
    return Markup('<time datetime="{0}" title="{0}">{1} ago</time>').format(
        exact, _lasting(passed_s)
    )


def _exact(text: str) -> Markup:
    """Text that a browser reads back unchanged: a bare CR would be a line's end to it."""
    return escape(text).replace("\r", Markup("&#13;"))


def brief(job_id: str) -> str:
    """An id for a narrow column: the jobs of one run or batch differ at its end."""
    return job_id if len(job_id) <= _BRIEF else f"{job_id[:10]}\N{HORIZONTAL ELLIPSIS}{job_id[-6:]}"


def _lasting(seconds: float) -> str:
    size, unit = next((age for age in _AGES if seconds >= age[0]), _AGES[-1])
    return f"{seconds / size:.0f} {unit}"


def _starting(seconds: float | None) -> str:
    return "nobody knows when" if seconds is None else starting_in(seconds)


def _count(number: float) -> str:
    return f"{number:,.0f}"
