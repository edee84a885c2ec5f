"""What follows a job has its ids from the start, so that sending it twice is sending it once."""

from __future__ import annotations

import json
from typing import Any

from celery import chain, chord, group
from kombu.utils.json import dumps

from tasks.generate import generate
from worker.messages.followers import with_ids


def plain(*signatures: Any) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(dumps({"callbacks": list(signatures), "chain": None}))
    return stored


def ids(found: Any) -> list[str]:
    """Every task id in it."""
    if isinstance(found, list):
        return [one for each in found for one in ids(each)]
    if not isinstance(found, dict):
        return []
    own = [found["task_id"]] if "task_id" in found else []
    return own + [one for each in found.values() for one in ids(each)]


def test_an_id_is_that_of_the_job_and_the_place() -> None:
    follows = plain(generate.s(), generate.s())
    once, again = with_ids(follows, "j1"), with_ids(follows, "j1")
    assert once == again
    assert len(set(ids(once))) == 2
    assert not set(ids(once)) & set(ids(with_ids(follows, "j2")))


def test_an_id_that_was_given_is_kept() -> None:
    (kept,) = ids(with_ids(plain(generate.s().set(task_id="mine")), "j1"))
    assert kept == "mine"


def test_every_part_of_what_follows_has_one() -> None:
    parts = [generate.s(), generate.s()]
    for whole, count in ((chain(parts), 2), (group(parts), 2), (chord(parts, generate.s()), 3)):
        found = ids(with_ids(plain(whole), "j1"))
        assert len(set(found)) == len(found) == count, whole


def test_what_follows_nothing_is_left_alone() -> None:
    nothing: dict[str, Any] = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    assert with_ids(nothing, "j1") == nothing
