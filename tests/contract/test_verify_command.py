"""`longstream verify` on a real log that someone has touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from tasks.cli import verify as command
from tests.conftest import Store
from tests.harness.journal import AGES_S, Journal, journal, say
from worker.log.stored import Stored


@pytest.fixture(autouse=True)
def configured(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if store.url is None:
        pytest.skip("a command connects by URL")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGSTREAM_REDIS_URL", store.url)
    monkeypatch.setenv("LONGSTREAM_SIMULATOR_URL", "http://127.0.0.1:1")


def verified(job: Journal, *options: str) -> tuple[int, str]:
    ran = CliRunner().invoke(command.command, [job.job_id, *options])
    return ran.exit_code, ran.output


async def sealed(job: Journal) -> list[Stored]:
    await say(await job.writer(), "aban", "doned")
    writer = await job.writer("w2")
    await say(writer, "ke", "pt ", "whole")
    await writer.seal("completed", ages_s=AGES_S)
    return job.log()


async def test_a_whole_log_passes(store: Store) -> None:
    async with journal(store) as job:
        await sealed(job)
        code, shown = verified(job)
        assert code == 0
        assert shown.startswith(f"job {job.job_id}: whole; 8 entries, 2 attempts, 10 characters")


@pytest.mark.parametrize(("where", "clean"), [("2-2", True), ("1-1", False)])
async def test_an_entry_that_was_deleted_is_named(store: Store, where: str, clean: bool) -> None:
    async with journal(store) as job:
        await sealed(job)
        store.sync.xdel(job.keys.log, where)
        code, shown = verified(job, "--json")
        told: Any = msgspec.json.decode(shown)
        assert (code, told["ok"]) == (1, False)
        assert (told["findings"][0]["id"], told["findings"][0]["fault"]) == (where, "missing")
        assert told["findings"][0]["clean"] is clean


async def test_an_entry_that_was_rewritten_is_named(store: Store) -> None:
    async with journal(store) as job:
        log = await sealed(job)
        touched = [each._replace(payload=each.payload.replace(b'"pt "', b'"lt "')) for each in log]
        job.roll_back(touched, job.record())
        code, shown = verified(job)
        assert code == 1
        assert shown.splitlines()[0].startswith("2-2 changed:")


async def test_a_log_without_its_seal_is_told(store: Store) -> None:
    async with journal(store) as job:
        log = await sealed(job)
        store.sync.xdel(job.keys.log, str(log[-1].at))
        code, shown = verified(job)
        assert (code, shown.splitlines()[0]) == (
            1,
            "2-4 missing: the job ended, and its log has no seal",
        )


async def test_an_unknown_job_and_an_expired_log_are_answers(store: Store) -> None:
    async with journal(store) as job:
        await sealed(job)
        store.sync.delete(job.keys.log)
        ran = CliRunner().invoke(command.command, [job.job_id])
        assert "nothing to verify" in str(ran.exception)
        ran = CliRunner().invoke(command.command, ["nope"])
        assert "no job nope" in str(ran.exception)


async def test_a_job_that_never_began_has_nothing_to_verify(store: Store) -> None:
    async with journal(store) as job:
        code, shown = verified(job)
        says = "nothing to verify yet, its log has not begun"
        assert (code, shown) == (0, f"job {job.job_id}: {says}\n")
        await job.claimed()
        store.sync.delete(job.keys.log)
        code, shown = verified(job)
        assert (code, shown.splitlines()[0]) == (1, "1-0 missing: the whole attempt lacks it")
