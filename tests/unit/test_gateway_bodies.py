"""How much of the bodies of one caller is held at once, and that it costs no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from tasks.gateway.access import Grant
from tasks.gateway.bodies import Bodies
from tasks.gateway.problems import Problem

MOST = 1000


def request(caller: str, *parts: bytes, until: asyncio.Event | None = None) -> Request:
    """One whose body comes in parts, the last of them when `until` says so."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if len(left) == 1 and until is not None:
            await until.wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    grant = Grant(name=caller, scopes=frozenset())
    return Request({"type": "http", "headers": [], "state": {"grant": grant}}, receive)


async def test_a_body_comes_whole_however_small_its_pieces() -> None:
    held = Bodies(MOST)
    assert await held.received(request("a", *[b"x"] * MOST)) == b"x" * MOST
    with pytest.raises(Problem, match="too_large"):
        await held.received(request("a", *[b"x"] * (MOST + 1)))


async def test_slow_bodies_of_one_caller_are_bounded_and_hold_no_other_up() -> None:
    held, go = Bodies(MOST), asyncio.Event()
    slow = [
        asyncio.create_task(held.received(request("a", b"x" * MOST, b"", until=go)))
        for _ in range(4)
    ]
    await asyncio.sleep(0)

    with pytest.raises(Problem, match="too_much_at_once") as caught:
        await held.received(request("a", b"x"))
    assert caught.value.status == 429
    assert caught.value.headers["Retry-After"] == "1"
    assert await held.received(request("b", b"x" * MOST)) == b"x" * MOST

    go.set()
    assert [len(body) for body in await asyncio.gather(*slow)] == [MOST] * 4
    assert await held.received(request("a", b"x")) == b"x"


async def test_what_is_refused_or_cut_is_held_no_more() -> None:
    held = Bodies(MOST)
    for _ in range(10):
        with pytest.raises(Problem, match="too_large"):
            await held.received(request("a", b"x" * MOST, b"x"))
    assert await held.received(request("a", b"x" * MOST)) == b"x" * MOST
