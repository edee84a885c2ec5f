"""When a received message is acknowledged: its job must not be lost in between."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo
from celery.exceptions import Ignore
from celery.worker.consumer import Consumer

from settings import load
from tasks.application import app
from tasks.generate import generate
from tests.harness.celery_app import client_of
from worker.messages.message import plain_message
from worker.messages.publish import LEASE_HEADER
from worker.messages.received import LISTENING, QuietRequest, ToughConsumer
from worker.store.keys import direct_queue


@pytest.fixture(scope="module", autouse=True)
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The app has settings, and connects to nothing."""
    folder = tmp_path_factory.mktemp("nowhere")
    with client_of(load({"LONGSTREAM_REDIS_URL": f"unix://{folder}/none.sock"}, folder)):
        yield


class Acked:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self, *_: Any) -> None:
        self.times += 1


def received(acked: Acked, queue: str = "longstream", **headers: Any) -> QuietRequest:
    message = plain_message("tasks.generate", "j1", ["x"], {})
    arrived = SimpleNamespace(
        headers=message.headers | headers,
        payload=message.body,
        body=b"",
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": queue},
        properties={},
    )
    return QuietRequest(arrived, on_ack=acked, app=app, task=generate, hostname="w1@host")


def fail(error: Exception) -> None:
    raise error


def ended_with(error: Exception) -> ExceptionInfo:
    with pytest.raises(type(error)) as raised:
        fail(error)
    return ExceptionInfo((raised.type, raised.value, raised.tb))


@pytest.mark.parametrize("error", [Ignore(), ValueError("a bad argument")])
def test_a_message_sent_by_name_is_acknowledged_when_its_job_is_in_the_line(
    error: Exception,
) -> None:
    request = received(acked := Acked())
    request.on_accepted(1, time.monotonic())
    assert acked.times == 0
    request.on_failure(ended_with(error), return_ok=True)
    assert acked.times == 1


def test_a_message_with_a_lease_is_acknowledged_when_it_begins() -> None:
    request = received(acked := Acked(), **{LEASE_HEADER: 7})
    request.on_accepted(1, time.monotonic())
    assert acked.times == 1
    request.on_failure(ended_with(Ignore()), return_ok=True)
    assert acked.times == 1


def test_what_came_through_the_worker_s_own_queue_needs_no_receipt() -> None:
    request = received(acked := Acked(), direct_queue("w1@host"), **{LEASE_HEADER: 7})
    request.on_accepted(1, time.monotonic())
    assert (acked.times, request.acknowledged) == (0, True)


def test_no_message_waits_for_its_time_in_the_memory_of_a_worker() -> None:
    assert received(Acked(), eta="2100-01-01T00:00:00+00:00").eta is None


def test_a_consumer_that_is_cut_off_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Exception] = []
    cut = OSError("cut")
    monkeypatch.setattr(
        Consumer, "on_connection_error_after_connected", lambda _, error: told.append(error)
    )
    consumer = object.__new__(ToughConsumer)
    consumer.on_ready()
    assert LISTENING.is_set()
    consumer.on_connection_error_after_connected(cut)
    assert not LISTENING.is_set()
    assert told == [cut]
