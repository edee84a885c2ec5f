"""Every script finds all its keys on one shard of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from redis.crc import key_slot

from settings.model import Account
from tests.conftest import Store
from tests.contract.test_cancel import Backend
from tests.contract.test_runner import JOB, Provider, attempt
from tests.contract.test_submission import job
from tests.harness.lines import Line
from worker.job.cancel import cancel
from worker.job.submitting import submit
from worker.log.commit import GroupCommit
from worker.outcomes import Outcome
from worker.store.keys import inbox_key, job_keys, pool_keys
from worker.store.scripts import Script
from worker.upstream.happenings import Finished


def slots(keys: list[str]) -> set[int]:
    return {key_slot(key.encode()) for key in keys}


@pytest.mark.parametrize("job_id", ["a1b2c3", "x", "tenant:job.7_b-2", "A" * 128])
def test_all_keys_of_a_job_are_on_one_shard(job_id: str) -> None:
    keys = job_keys(job_id)
    assert len(slots([getattr(keys, name) for name in keys.__struct_fields__])) == 1


@pytest.mark.parametrize("pool", ["default", "holysheep", "p-1"])
def test_all_keys_of_a_pool_are_on_one_shard(pool: str) -> None:
    assert len(slots([*pool_keys(pool).all(), inbox_key(pool, "w1@host")])) == 1


def test_jobs_are_spread_over_the_shards() -> None:
    assert len(slots([job_keys(f"job{n}").record for n in range(100)])) > 90


async def test_no_script_asks_for_keys_of_two_shards(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    real = Script.command

    def noted(self: Script, keys: list[str], args: list[Any]) -> list[Any]:
        asked.append(keys)
        return real(self, keys, args)

    async def done() -> Finished:
        return Finished(Outcome.COMPLETED, None)

    monkeypatch.setattr(Script, "command", noted)
    submit(store.sync, job("other"))
    settings = Line(store.sync, {"a": Account(name="a")}).settings
    celery: Any = SimpleNamespace(backend=Backend())
    cancel(celery, store.sync, settings, "other")
    commit = GroupCommit(store.aio())
    await attempt(store, commit, Provider(done)).run()
    await commit.close()
    assert {key for keys in asked for key in keys} >= {job_keys(JOB).log, pool_keys("p").leases}
    assert all(len(slots(keys)) == 1 for keys in asked), asked
