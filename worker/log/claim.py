"""A claim: what `claim.lua` decided about a new attempt, as a typed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from worker.admission.tickets import PLAIN, Ticket
from worker.log import entries
from worker.log.cursor import Cursor
from worker.log.entries import Mode


class Point(msgspec.Struct, frozen=True):
    """Where a background response can be taken up, as the record keeps it."""

    key: str
    response_id: str
    sequence: int


class Repair(msgspec.Struct, frozen=True):
    """An answer that was whole and is being corrected: its last entry, how many characters it has,
    and the tokens it took."""

    base: str
    offset: int
    used: entries.Tokens


@dataclass(frozen=True, slots=True)
class Account:
    """What the record says of the money: up to which attempt it is known and booked, and whose it
    is."""

    accounted: int
    booked: int
    task: str
    ticket: Ticket
    #: What the job may cost, in millionths of a USD; 0: it did not say.
    max_cost_micros: int


@dataclass(frozen=True, slots=True)
class Claim:
    """`first` is the payload of `<attempt>-0`; `base` the last entry it keeps, `offset` the text up
    to there in characters."""

    attempt: int
    first: bytes
    mode: Mode
    base: Cursor
    offset: int
    reason: str
    #: Workers that died under this job, oldest first.
    lost: tuple[str, ...]
    cancelled: bool
    failures: int
    #: What is left until the deadline; None: there is none.
    deadline_ms: int | None
    #: The response to take up, or to stop when the job is only closed; None: there is none, or the
    #: mode does not ask for it.
    point: Point | None
    #: When the job was submitted, when the attempt before began (0: there was none), and when this
    #: one did, in milliseconds of the server's clock.
    created_ms: int
    before_ms: int
    began_ms: int
    #: What becomes of the answer when its stream is interrupted.
    on_interrupt: str
    account: Account
    #: What this attempt corrects; None: nothing.
    repair: Repair | None = None
    #: Responses that go on and that no attempt takes up, by the last one that read them.
    left: Mapping[int, Point] = field(default_factory=dict)

    @property
    def crashes(self) -> int:
        return len(self.lost)


def claim_of(reply: list[Any]) -> Claim | str:
    """The reply of `claim.lua`; a word when nothing was claimed."""
    if reply[0] != b"claimed":
        return bytes(reply[0]).decode()
    _, attempt, first, lost, cancelled, failures, resume, deadline_ms, *rest = reply
    created_ms, before_ms, began_ms, policy, repair, money, left = rest
    entry = entries.decode(first)
    assert isinstance(entry, entries.Attempt)
    goes_on = resume and entry.mode in (Mode.REATTACH, Mode.CLOSE)
    return Claim(
        attempt=attempt,
        first=first,
        mode=entry.mode,
        base=Cursor.parse(entry.base),
        offset=entry.offset,
        reason=entry.reason,
        lost=tuple(name.decode() for name in lost),
        cancelled=bool(cancelled),
        failures=failures,
        deadline_ms=None if deadline_ms in ("", b"") else int(deadline_ms),
        point=msgspec.json.decode(resume, type=Point) if goes_on else None,
        created_ms=created_ms,
        before_ms=before_ms,
        began_ms=began_ms,
        on_interrupt=policy.decode(),
        repair=msgspec.json.decode(repair, type=Repair) if repair else None,
        account=_account(money),
        left=msgspec.json.decode(left, type=dict[int, Point]) if left else {},
    )


def _account(reply: list[Any]) -> Account:
    accounted, booked, task, ticket, max_cost_micros = reply
    return Account(
        accounted=accounted,
        booked=booked,
        task=task.decode(),
        ticket=msgspec.json.decode(ticket, type=Ticket) if ticket else PLAIN,
        max_cost_micros=max_cost_micros,
    )
