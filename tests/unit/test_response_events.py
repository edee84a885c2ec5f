"""The events of a response when its log can not be read on."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from settings.errors import LongstreamError
from tasks.gateway.responses import ResponseEvents
from worker.errors import StoreRefused
from worker.job.records import Record, State
from worker.store.connections import StoreUnreachable


class Broken:
    """A hub, and its reader, of which every log fails."""

    def __init__(self, error: LongstreamError) -> None:
        self._error = error

    def reader(self, *_: Any) -> Broken:
        return self

    async def batches(self) -> AsyncGenerator[list[Any], None]:
        raise self._error
        yield


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (StoreRefused("ResponseError: WRONGTYPE"), "store_refused", "ResponseError: WRONGTYPE"),
        (StoreUnreachable("cannot reach redis://10.1.2.3"), "store_unreachable", "Redis does not"),
    ],
)
async def test_a_log_that_fails_ends_in_an_error_that_names_no_server(
    error: LongstreamError, code: str, message: str
) -> None:
    record = Record(id="r", state=State.RUNNING, task="t", model="m", pool="p")
    hub: Any = Broken(error)
    *_, last = [chunk async for chunk in ResponseEvents(record, -1).chunks(hub)]

    name, data = last.decode().strip().split("\n")
    told = json.loads(data.removeprefix("data: "))
    assert (name, told["type"], told["code"]) == ("event: error", "error", code)
    assert told["message"].startswith(message)
    assert "10.1.2.3" not in data
