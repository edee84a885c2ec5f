"""A batch whose jobs wait says for what, and starts what it can."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest

from settings.model import Pool, Settings
from tasks.batches.output import Output
from tasks.batches.running import Batch, Plan, Progress
from tests.conftest import Store
from tests.harness.lines import key
from worker.log.status import NO_WORKER
from worker.log.view import Status

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY}


def test_a_batch_says_what_its_oldest_job_waits_for(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.batches.running._QUIET_S", 0.0)
    settings = Settings(pools={"p": Pool(name="p", keys=(key("a"),))})
    heard: list[Status] = []

    def explained(status: Status) -> Status:
        heard.append(status)
        return msgspec.structs.replace(status, detail=f"mended: {status.detail}")

    def step(progress: Progress) -> None:
        if progress.waits:
            raise KeyboardInterrupt

    with Output(tmp_path / "out.jsonl") as output:
        batch = Batch(store.sync, settings, output, Plan(), step, explained)
        with pytest.raises(KeyboardInterrupt):
            batch.run(io.BytesIO(json.dumps(LINE).encode()))

    assert [status.state for status in heard] == ["waiting"]
    assert batch.progress.waits == f"mended: {heard[0].detail}"
    assert NO_WORKER in batch.progress.waits
