"""No key, no prompt and no answer where it does not belong: the whole traffic is searched."""

from __future__ import annotations

import base64
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery, chain
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult

from settings import load
from tasks import jobs
from tasks.generate import generate
from tasks.refactor import refactor
from tests.endtoend.test_by_name import send_raw
from tests.harness.celery_app import client_of, hang_up
from tests.harness.cluster import Cluster
from tests.harness.waiting import wait_until
from worker.errors import JobFailed
from worker.store.connections import connect

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")

SECRET = "sk-live-4f1c7a90be5d4e21"
PROMPT, SYSTEM, NEXT, FILE, NAMED, LOST = (
    f"{name}-{uuid.uuid4().hex}" for name in ("prompt", "system", "next", "file", "named", "lost")
)
ASKED = (PROMPT, SYSTEM, NEXT)
PLAIN = "sim:plain"
GET_S = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("secrets"), LONGSTREAM_WORKER__MAX_ATTEMPTS="1")
    pair = {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": running.base}
    running.settings = load({**running.environ, **pair}, running.state)
    running.celery("-E", "-c", "4", "-l", "debug", **pair)
    wait_until("the worker is ready", lambda: "worker.ready" in running.log("celery"), 30)
    yield running
    running.close()


@contextmanager
def overheard(cluster: Cluster) -> Iterator[list[str]]:
    """Every command the store is sent meanwhile, those of scripts included."""
    commands: list[str] = []
    over = f"over-{uuid.uuid4()}"
    with connect(cluster.valkey.url) as client, client.monitor() as monitor:

        def listen() -> None:
            for heard in monitor.listen():
                commands.append(legible(heard["command"]))
                if over in heard["command"]:
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield commands
        finally:
            cluster.client.echo(over)
            thread.join(20)


def legible(command: str) -> str:
    """With what the broker's messages carry, which is encoded."""
    bodies = re.findall(r"body\W+([A-Za-z0-9+/]{8,}=*)", command)
    return " ".join([command, *(base64.b64decode(body).decode() for body in bodies)])


@contextmanager
def events(cluster: Cluster) -> Iterator[list[str]]:
    """Celery's events meanwhile."""
    url = cluster.valkey.url.replace("unix://", "redis+socket://")
    client = Celery("watcher", broker=url, set_as_current=False)
    seen: list[str] = []
    over = threading.Event()
    begun = threading.Event()

    def listen() -> None:
        with client.connection() as connection:
            handlers = {"*": lambda event: seen.append(json.dumps(event))}
            receiver = client.events.Receiver(connection, handlers=handlers)
            for _ in receiver.consume(limit=None, timeout=0.2, safety_interval=0):
                begun.set()
                if over.is_set():
                    return

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(20)
        hang_up(client)


def answers(cluster: Cluster) -> list[str]:
    """Some words of every answer there was."""
    return [" ".join(e["visible"].split()[3:9]) for e in cluster.ledger() if e["visible"]]


def test_what_is_asked_stays_in_the_record_and_what_is_answered_in_log_and_result(
    cluster: Cluster,
) -> None:
    with client_of(cluster.settings), overheard(cluster) as commands:
        generate.delay(PROMPT, system=SYSTEM, model=PLAIN).get(timeout=GET_S)
        first = generate.s(PROMPT, model=PLAIN)
        chain(first, generate.si(NEXT, model=PLAIN))().get(timeout=GET_S)
        file = {"path": "a.py", "text": f"x = {FILE!r}\n"}
        refactor.delay([file], "Tidy up.", model=PLAIN).get(timeout=GET_S)
        with pytest.raises(JobFailed):
            generate.delay(PROMPT, model="sim:500").get(timeout=GET_S)
        stalled = generate.delay(PROMPT, model="sim:stall")
        wait_until("it runs", lambda: jobs.status(stalled.id).state == jobs.State.RUNNING)
        jobs.cancel(stalled.id)
        with pytest.raises(TaskRevokedError):
            stalled.get(timeout=GET_S)
    assert holding(commands, ('[[], {}, {"callbacks"',)), "granted messages are among them"
    assert holding(commands, (SECRET,)) == []
    asked = holding(commands, ASKED)
    assert asked
    assert [c for c in asked if not (":job" in c and "ls:{" in c)] == []
    # A refactored file is part of both.
    said = holding(commands, (FILE, *answers(cluster)))
    assert said
    assert [c for c in said if "ls:{" not in c and "celery-task-meta-" not in c] == []
    log = cluster.log("celery")
    assert holding(log.splitlines(), (SECRET, FILE, *ASKED, *answers(cluster))) == []
    for key in cluster.client.scan_iter("celery-task-meta-*"):
        meta = json.loads(cluster.client.get(key) or b"")
        assert holding([json.dumps(meta)], (SECRET, *ASKED)) == []


def test_a_message_sent_by_name_shows_up_in_no_event_and_no_log_line(cluster: Cluster) -> None:
    """Nor one that is discarded. Its way through the broker was the sender's choice."""
    with client_of(cluster.settings) as app, events(cluster) as seen:
        ids = [str(uuid.uuid4()) for _ in range(4)]
        wait_until("events come", lambda: "worker-heartbeat" in str(seen))
        app.send_task("tasks.generate", [NAMED], {"nonsense": 1}, task_id=ids[0])
        app.send_task("tasks.nothing", [LOST], task_id=ids[1])
        send_raw(cluster, "longstream", [[LOST], {}, {}], {"note": LOST})
        send_raw(cluster, "longstream", {"nothing": LOST}, {})
        send_raw(cluster, "longstream", LOST, {"task": "tasks.generate", "argsrepr": LOST})
        send_raw(cluster, "longstream", LOST, {"task": "tasks.nothing", "argsrepr": LOST})
        whole = {"task": "tasks.generate", "argsrepr": LOST, "id": ids[2]}
        send_raw(cluster, "longstream", LOST, whole)
        app.send_task("tasks.generate", [NAMED], {"model": PLAIN}, task_id=ids[3])
        assert AsyncResult(ids[3], app=app).get(timeout=GET_S)
        for failing in ids[:2]:
            assert AsyncResult(failing, app=app).get(timeout=GET_S, propagate=False)
        assert cluster.log("celery").count("a message was discarded: ") >= 6
        wait_until("events come", lambda: "task-succeeded" in str(seen))
    heard = [*seen, *cluster.log("celery").splitlines()]
    assert holding(heard, (SECRET, NAMED, LOST, *answers(cluster))) == []


def holding(texts: list[str], words: Any) -> list[str]:
    """The texts that hold one of the words."""
    return [text for text in texts if any(word in text for word in words)]
