"""Tokens in a store, and lists of jobs in pages."""

from __future__ import annotations

import pytest

from tasks.gateway import tokens
from tasks.gateway.tokens import Scope, matching, parts_of
from tests.conftest import Store
from worker.job.listing import Position, page
from worker.log.cursor import CursorError
from worker.store.keys import JOBS, TOKENS, job_keys


def stored(store: Store, token_id: str) -> bytes | None:
    found: bytes | None = store.sync.hget(TOKENS, token_id)  # type: ignore[assignment]
    return found


def test_a_token_matches_itself_and_nothing_else(store: Store) -> None:
    made, text = tokens.create(store.sync, "ci", (Scope.READ,), tenant="acme")
    _, other = tokens.create(store.sync, "other", (Scope.READ,))
    parts, others = parts_of(text), parts_of(other)
    assert parts is not None
    assert others is not None
    kept = stored(store, parts[0])
    assert matching(kept, parts[1]) == made
    assert matching(kept, others[1]) is None
    assert matching(kept, parts[1][:-1]) is None
    assert matching(kept, "") is None
    assert matching(None, parts[1]) is None
    assert parts[1].encode() not in (kept or b"")


def test_a_token_that_has_expired_matches_nothing_and_goes_from_the_list(store: Store) -> None:
    made, text = tokens.create(store.sync, "brief", (Scope.READ,), expires_s=0.001)
    lasting, _ = tokens.create(store.sync, "lasting", (Scope.READ,), expires_s=60)
    parts = parts_of(text)
    assert parts is not None
    kept = stored(store, made.id)
    while matching(kept, parts[1]) is not None:
        pass
    while made in tokens.listed(store.sync):
        pass
    assert tokens.listed(store.sync) == [lasting]
    assert stored(store, made.id) is None


def test_a_token_is_revoked_once(store: Store) -> None:
    made, _ = tokens.create(store.sync, "x", (Scope.READ,))
    assert tokens.revoke(store.sync, made.id)
    assert not tokens.revoke(store.sync, made.id)
    assert tokens.listed(store.sync) == []


@pytest.mark.parametrize(
    "text", ["", "ls", "ls_", "ls_x_y", "x_000000000000_y", "ls_000000000000_é"]
)
def test_what_does_not_look_like_a_token_is_none(text: str) -> None:
    assert parts_of(text) is None


def listed(store: Store, count: int, at_ms: int = 1000) -> list[str]:
    """Jobs, several of one millisecond; every third has gone. Their ids, newest first."""
    for number in range(count):
        job = f"job{number:05d}"
        store.sync.zadd(JOBS, {job: at_ms + number // 5})
        if number % 3:
            fields = {"state": "waiting", "task": "t", "model": f"m{number % 2}", "pool": "p"}
            store.sync.hset(job_keys(job).record, mapping=fields)  # type: ignore[arg-type]
    return [f"job{number:05d}" for number in range(count - 1, -1, -1) if number % 3]


def test_pages_hold_every_job_once_and_in_order(store: Store) -> None:
    wanted = listed(store, 300)
    seen: list[str] = []
    behind = None
    while True:
        found = page(store.sync, lambda _: True, 7, behind)
        seen += [record.id for record in found.records]
        if found.following is None:
            break
        behind = Position.parse(str(found.following))
    assert seen == wanted


def test_a_page_looks_through_what_is_not_wanted(store: Store) -> None:
    wanted = [job for job in listed(store, 450) if int(job[3:]) % 2]
    found = page(store.sync, lambda record: record.model == "m1", 1000)
    assert [record.id for record in found.records] == wanted
    assert found.following is None


@pytest.mark.parametrize("text", ["", "x", "1", "-1-a", "1-", "1.5-a", "9" * 20 + "-a"])
def test_what_is_no_place_in_a_list_is_refused(text: str) -> None:
    with pytest.raises(CursorError):
        Position.parse(text)
