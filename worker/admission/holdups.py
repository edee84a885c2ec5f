"""What holds up the job at some place of a line, and until when, as far as anyone can tell."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from worker.admission import states


class HoldUp(NamedTuple):
    """`reason`: "" when it only waits for its turn. `starts_ms`: when it is expected to start, on
    the server's clock; None: nobody knows."""

    reason: str
    starts_ms: float | None


def hold_up(
    ahead: int,
    now: float,
    *,
    running: int,
    slots: int,
    blocked: bytes | None,
    progress: bytes | None,
) -> HoldUp:
    """`ahead`: how many jobs stand before it; `blocked`, `progress`: as the line has them."""
    if running >= slots:
        return HoldUp(f"all {slots} slots of the workers are taken", None)
    pace_ms = states.progress(progress).pace
    head: dict[str, Any] = msgspec.json.decode(blocked) if blocked else {}
    until = head.get("until")
    reason = str(head.get("reason", ""))
    if until is None:
        # Nothing but the turns of others holds it up, and those pass at once until a pace is known.
        return HoldUp(reason, None if head else now + ahead * pace_ms)
    return HoldUp(reason, max(until, now) + ahead * pace_ms)


def held_by_budget(why: bytes | None) -> bool:
    """Whether what a record says of the last attempt is that a budget held it back."""
    return why is not None and why.startswith(b"budget of ")
