"""Providers that do not take a parameter, and say so in the ways they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tasks.local.simulator import failures
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.events import Event
from tasks.local.simulator.scenarios.scenario import Quirk, Wiring, wired
from tasks.local.simulator.steps import Script

GATEWAY = ("max_reasoning_tokens", "reasoning_chunk_buffer")


def without(names: tuple[str, ...], refuse: Callable[[str], Script]) -> Wiring:
    """The first of `names` that a request has is refused."""

    def wire(ask: Ask, events: Iterable[Event]) -> Script:
        for name in names:
            if name in ask.parameters:
                return refuse(name)
        return wired(ask, events)

    return wire


def unknown(name: str) -> Script:
    return failures.failure(
        400, f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name
    )


def unrecognized(name: str) -> Script:
    return failures.failure(400, f"Unrecognized request argument supplied: {name}")


def unsupported(name: str) -> Script:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return failures.failure(400, message, code="unsupported_parameter", param=name)


def unverified(ask: Ask, events: Iterable[Event]) -> Script:
    if not ask.stream:
        return wired(ask, events)
    return failures.failure(
        400,
        "Your organization must be verified to stream this model.",
        code="unsupported_value",
        param="stream",
    )


SCENARIOS = (
    Quirk(
        name="sim:strict-unknown",
        does="400 `unknown_parameter` for each of the gateway's parameters.",
        wire=without(GATEWAY, unknown),
    ),
    Quirk(
        name="sim:strict-unrecognized",
        does="400 for each of the gateway's parameters, named in the message only.",
        wire=without(GATEWAY, unrecognized),
    ),
    Quirk(
        name="sim:strict-max-tokens",
        does="400 `unsupported_parameter` for `max_tokens`.",
        dialect="chat",
        wire=without(("max_tokens",), unsupported),
    ),
    Quirk(
        name="sim:strict-effort",
        does="400 `unsupported_parameter` for `reasoning_effort`.",
        dialect="chat",
        wire=without(("reasoning_effort",), unsupported),
    ),
    Quirk(
        name="sim:strict-stream",
        does="400 `unsupported_value` for `stream`.",
        wire=unverified,
    ),
)
