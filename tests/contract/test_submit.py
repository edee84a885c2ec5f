"""Submitting: what is wrong is said at once, in one line, and nothing hangs."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import chain

from settings import load
from settings.errors import LongstreamError, SettingsError
from settings.model import Settings
from tasks import jobs
from tasks.generate import generate
from tasks.refactor import refactor
from tests.harness.celery_app import client_of
from tests.harness.valkey import Valkey
from worker.app import LongstreamApp
from worker.errors import UnknownJob
from worker.store import connections
from worker.store.connections import StoreUnreachable
from worker.store.keys import pool_keys

FILE = {"path": "a.py", "text": "x = 1\n"}


def settings(folder: Path, url: str, **more: str) -> Settings:
    environ = {"LONGSTREAM_REDIS_URL": url, "LONGSTREAM_SIMULATOR_URL": "http://127.0.0.1:1/v1"}
    return load({**environ, **more}, folder)


@pytest.fixture
def app(valkey: Valkey, tmp_path: Path) -> Iterator[LongstreamApp]:
    with client_of(settings(tmp_path, valkey.url)) as client:
        yield client


def by_delay(*args: Any, **kwargs: Any) -> Any:
    return generate.delay(*args, **kwargs)


def by_id(*args: Any, **kwargs: Any) -> Any:
    return jobs.submit("tasks.generate", *args, **kwargs)


WAYS = pytest.mark.parametrize("submit", [by_delay, by_id])


@WAYS
@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((" ",), {}, "the prompt is empty"),
        ((7,), {}, "the prompt must be text, and it is a int"),
        (("x",), {"extra_body": {"a": {1, 2}}}, "must be JSON values: Object of type set"),
        (("x",), {"extra_body": {"a": datetime.now(UTC)}}, "must be JSON values: .*datetime"),
        (("x",), {"extra_body": {"model": "y"}}, "model"),
    ],
)
def test_arguments_that_can_not_work_are_refused(
    app: LongstreamApp,
    submit: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    said: str,
) -> None:
    with pytest.raises(LongstreamError, match=said) as refused:
        submit(*args, **kwargs)
    assert "\n" not in str(refused.value)


def test_a_task_that_is_none_is_named_with_those_that_are(app: LongstreamApp) -> None:
    with pytest.raises(LongstreamError, match=r"no task tasks\.nope: .*tasks\.generate"):
        jobs.submit("tasks.nope", "x")


@pytest.mark.parametrize("prefix", ["", " "])
def test_no_name_is_no_job(app: LongstreamApp, prefix: str) -> None:
    by_id("x")
    with pytest.raises(UnknownJob, match="no job is named"):
        jobs.find(prefix)


def test_the_start_of_one_id_is_that_job_and_of_several_is_none(app: LongstreamApp) -> None:
    for number in range(7):
        by_id("x", job_id=f"same-{number}")
    assert jobs.find("same-3") == "same-3"
    with pytest.raises(UnknownJob, match=r"several job ids: same-\d(, same-\d){4}, and more$"):
        jobs.find("same")
    by_id("x", job_id="other")
    assert jobs.find("ot") == "other"


@WAYS
def test_an_unknown_keyword_is_a_type_error_as_in_python(
    app: LongstreamApp, submit: Callable[..., Any]
) -> None:
    with pytest.raises(TypeError, match="nonsense"):
        submit("x", nonsense=1)
    with pytest.raises(TypeError, match="prompt"):
        submit()


@pytest.mark.parametrize(
    "files", [[], "a.py", [["a.py", "x"]], [{"path": "a.py"}], [{**FILE, "sha256": 1}]]
)
def test_what_is_no_list_of_files_is_refused(app: LongstreamApp, files: Any) -> None:
    with pytest.raises(LongstreamError, match="file"):
        refactor.delay(files, "Tidy up.")


def test_an_unknown_model_is_refused(valkey: Valkey, tmp_path: Path) -> None:
    (tmp_path / "longstream.toml").write_text(
        '[pools.p]\nmodels = ["gpt-*"]\n[[pools.p.keys]]\nalias = "k"\nprovider = "openai"\n'
        'secret = "sk-0123456789"\n'
    )
    with client_of(settings(tmp_path, valkey.url)):
        for submit in (by_delay, by_id):
            with pytest.raises(SettingsError, match=r"unknown model 'nope': .* serve gpt-"):
                submit("x", model="nope")


def test_the_job_is_no_function(app: LongstreamApp) -> None:
    for call in (generate, lambda prompt: generate.apply((prompt,), throw=True)):
        with pytest.raises(LongstreamError, match=r"submit it with \.delay"):
            call("x")


@WAYS
@pytest.mark.parametrize("where", ["redis://127.0.0.1:1/0", "unix:///nowhere/valkey.sock"])
def test_a_store_that_is_not_there_is_reported_at_once(
    tmp_path: Path, submit: Callable[..., Any], where: str
) -> None:
    with client_of(settings(tmp_path, where)):
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable, match=r"cannot reach Redis at .*start it or") as said:
            submit("x")
    assert time.monotonic() - begun < 3
    assert "\n" not in str(said.value)


@WAYS
def test_a_store_that_does_not_answer_is_reported(
    app: LongstreamApp,
    valkey: Valkey,
    submit: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "SHORT_TIMEOUT_S", 0.5)
    pid = valkey.daemon.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnreachable):
            submit("x")
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("options", [{"countdown": 60}, {"eta": "in a minute"}])
def test_a_job_for_later_waits_in_the_line_and_not_in_a_worker(
    app: LongstreamApp, valkey: Valkey, options: dict[str, Any]
) -> None:
    if "eta" in options:
        options = {"eta": datetime.now(UTC) + timedelta(seconds=60)}
    result = generate.apply_async(("x",), **options)
    with connections.connect(valkey.url) as client:
        seconds, _ = client.time()
        due = client.zscore(pool_keys("simulator").delayed, result.id)
    assert due is not None
    assert 55 < due / 1000 - seconds <= 61
    assert jobs.status(result.id).state == jobs.State.WAITING


def test_a_time_without_a_zone_is_utc_as_in_celery(
    app: LongstreamApp, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    naive = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=60)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        result = generate.apply_async(("x",), eta=naive)
    time.tzset()
    with connections.connect(valkey.url) as client:
        assert client.zscore(pool_keys("simulator").delayed, result.id) is not None


def test_what_follows_may_have_a_time_of_its_own(app: LongstreamApp) -> None:
    """Which is no JSON value, and Celery's own to carry."""
    later = generate.si("y").set(eta=datetime.now(UTC) + timedelta(hours=1))
    result = chain(generate.s("x"), later)()
    assert jobs.status(result.parent.id).state == jobs.State.WAITING


def test_what_follows_must_be_json_too(app: LongstreamApp) -> None:
    with pytest.raises(LongstreamError, match="what follows the job must be JSON values"):
        chain(generate.s("x"), generate.si("y", extra_body={"a": {1, 2}}))()


def test_the_same_id_is_the_same_job(app: LongstreamApp, valkey: Valkey) -> None:
    job_id = str(uuid.uuid4())
    first = generate.apply_async(("x",), task_id=job_id)
    second = generate.apply_async(("y",), task_id=job_id)
    assert first.id == second.id == by_id("z", job_id=job_id) == job_id
    with connections.connect(valkey.url) as client:
        assert client.zrank(pool_keys("simulator").normal, job_id) is not None


@pytest.mark.parametrize("lazy", [True, False])
def test_many_are_submitted_and_an_iterator_is_never_read_ahead(
    app: LongstreamApp, valkey: Valkey, lazy: bool
) -> None:
    asked: list[int] = []

    def calls() -> Iterator[dict[str, Any]]:
        for number in range(70):
            asked.append(number)
            yield {"prompt": f"Number {number}."}

    submitted = jobs.submit_many("tasks.generate", calls() if lazy else list(calls()))
    first = next(submitted)
    assert len(asked) == (1 if lazy else 70)
    ids = [first, *submitted]
    assert len(set(ids)) == 70
    with connections.connect(valkey.url) as client:
        assert None not in [client.zscore(pool_keys("simulator").bulk, job_id) for job_id in ids]
