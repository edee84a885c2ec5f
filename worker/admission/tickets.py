"""What the line must know of a job to find its place; as tickets.lua has it. Pure."""

from __future__ import annotations

import msgspec

CLASSES = ("urgent", "normal", "bulk")


class Ticket(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the line must know of a job. `kind` names the jobs whose answers will be alike."""

    tenant: str
    priority: str = msgspec.field(name="class")
    weight: float = 1.0
    model: str
    kind: str
    prompt: int
    cap: int | None = None
    sticky: str | None = None


class Estimate(msgspec.Struct, frozen=True):
    """Tokens of the prompt, and the most the answer may take; `cap` None: no limit was set."""

    prompt: int = 0
    cap: int | None = None
    effort: str = ""


UNKNOWN = Estimate()

#: A job nobody said anything about.
PLAIN = Ticket(tenant="default", priority="normal", model="", kind="", prompt=0)
