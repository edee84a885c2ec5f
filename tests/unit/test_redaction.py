"""Real-looking credentials, in every place a log line has."""

from __future__ import annotations

import base64
import io
import json
import logging
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from settings.model import Key, Pool, Settings
from settings.secret import Secret
from worker.seeing import redaction
from worker.seeing.logging import configure, report_what_nobody_caught
from worker.seeing.redaction import MARK, know, redacted

_seeded = random.Random(7)
_BASE64 = base64.b64encode(_seeded.randbytes(48)).decode()
_URL_SAFE = base64.urlsafe_b64encode(_seeded.randbytes(60)).decode()

LOOKING = {
    "openai": "sk-proj-4f1c7a90be5d4e21Zq8WmT3BlbkFJ0aXv",
    "openai old": "sk-4f1c7A90bE5d4e21Zq8WmT3B",
    "anthropic": "sk-ant-api03-R2D2c3po_a-b-c-d-e-f",
    "groq": "gsk_Zq8WmT3Blbk4f1c7a90be5",
    "hugging face": "hf_abcDEFghiJKLmnoPQR123",
    "google": "AIzaSyD4f1c7a90be5d4e21Zq8WmT3BlbkFJ0aX",
    "aws id": "AKIAIOSFODNN7EXAMPLE",
    "aws secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE2KEY4",
    "github": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "base64": _BASE64,
    "url-safe base64": _URL_SAFE,
    "hex": _seeded.randbytes(32).hex(),
    "short hex": _seeded.randbytes(16).hex(),
    "small letters": "k3v9x2m7q1z8w4n6b5c0d3f7g2h9",
}


@dataclass
class Thing:
    inner: str


class Broken:
    def __repr__(self) -> str:
        raise ValueError("sk-in-the-repr-0123456789")


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """No secret stays known, and the logging is what it was."""
    root, before = logging.getLogger(), (sys.excepthook, threading.excepthook)
    handlers, level = root.handlers[:], root.level
    yield
    redaction.forget()
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, threading.excepthook = before
    logging.captureWarnings(False)
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(params=["json", "terminal"])
def stream(request: pytest.FixtureRequest) -> io.StringIO:
    """What is logged, as it is read, from `logging_to` on."""
    return io.StringIO() if request.param == "json" else Terminal()


def logging_to(stream: io.StringIO) -> None:
    """In the test itself: pytest's own handlers, which come with it, show everything."""
    configure(logging.DEBUG, stream)


def raised(error: Exception) -> Exception:
    """The error with a traceback and a cause that holds its text as well."""
    error.__cause__ = ValueError(*error.args)

    def fail() -> None:
        raise error

    try:
        fail()
    except Exception as seen:
        return seen
    raise AssertionError


FIELDS: dict[str, Callable[[str], Any]] = {
    "text": lambda key: key,
    "sentence": lambda key: f"the provider said: bad key {key}, try another",
    "quoted": lambda key: f"bad key '{key}'",
    "bytes": lambda key: key.encode(),
    "bytes in a sentence": lambda key: b"x-api-key: " + key.encode() + b"\r\n",
    "nested": lambda key: {"a": [{"b": ({"c": key},)}]},
    "set": lambda key: {key},
    "key of a mapping": lambda key: {key: 1},
    "header": lambda key: {"Authorization": f"Bearer {key}", "X-Api-Key": key},
    "headers as bytes": lambda key: [(b"authorization", b"Bearer " + key.encode())],
    "headers as a text": lambda key: str({"authorization": f"Bearer {key}"}),
    "request head": lambda key: f"GET / HTTP/1.1\r\nAuthorization: Bearer {key}\r\nHost: a",
    "basic": lambda key: "Basic " + base64.b64encode(f"user:{key}".encode()).decode(),
    "assignment": lambda key: f"OPENAI_API_KEY={key} longstream worker",
    "json": lambda key: json.dumps({"api_key": key, "n": 1}),
    "json in json": lambda key: json.dumps(json.dumps({"secret": key})),
    "userinfo": lambda key: f"cannot reach redis://user:{key}@db.local:6379/0",
    "user only": lambda key: f"https://{key}@db.local/v1",
    "query": lambda key: f"GET https://api.local/v1/models?api-version=1&key={key}#top",
    "object": lambda key: Thing(key),
    "error": lambda key: raised(RuntimeError(f"401 for {key}")),
    "lines": lambda key: f"one\n{key}\nthree",
}


@pytest.mark.parametrize("name", LOOKING)
def test_no_field_of_an_event_shows_a_credential(stream: io.StringIO, name: str) -> None:
    logging_to(stream)
    key = LOOKING[name]
    for shape, made in FIELDS.items():
        stream.truncate(0)
        log = structlog.get_logger().bind(bound=made(key))
        log.warning("thing.happened", field=made(key), job="a1b2c3")

        assert key not in stream.getvalue(), shape
        assert "thing.happened" in stream.getvalue()
        assert "a1b2c3" in stream.getvalue()


@pytest.mark.parametrize("name", LOOKING)
def test_no_line_of_a_library_shows_a_credential(stream: io.StringIO, name: str) -> None:
    logging_to(stream)
    key = LOOKING[name]
    for logger in ("celery.worker", "httpx", "redis", "anybody.else"):
        log = logging.getLogger(logger)
        log.warning("bad key %s", key)
        log.warning(f"bad key {key}")
        log.warning("headers %r", {"authorization": f"Bearer {key}".encode()})
        log.error("failed", exc_info=raised(RuntimeError(f"for url https://a.local/?key={key}")))
        log.error("failed", extra={"api_key": key}, stack_info=True)
        log.error("%d %s", key)

    assert key not in stream.getvalue()
    assert stream.getvalue().count("bad key") == 8


def test_a_line_whose_format_is_wrong_is_told_without_its_arguments(
    stream: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    logging_to(stream)
    logging.getLogger("somebody").error("%d", LOOKING["openai"])

    assert "log.unreadable" in stream.getvalue()
    assert "somebody" in stream.getvalue()
    assert LOOKING["openai"] not in "".join([stream.getvalue(), *capsys.readouterr()])


def test_an_object_that_can_not_be_shown_is_no_leak_and_no_crash(stream: io.StringIO) -> None:
    logging_to(stream)
    structlog.get_logger().info("thing.happened", field=Broken(), deep=_deep(100))

    assert "sk-in-the-repr" not in stream.getvalue()
    assert "no repr" in stream.getvalue()


def _deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def test_what_nobody_caught_is_logged_and_not_printed(
    stream: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    logging_to(stream)
    report_what_nobody_caught()
    key = LOOKING["openai"]

    def fail() -> None:
        raise RuntimeError(key)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join(10)
    error = raised(RuntimeError(key))
    sys.excepthook(type(error), error, error.__traceback__)

    assert stream.getvalue().count("process.uncaught") == 2
    assert key not in "".join([stream.getvalue(), *capsys.readouterr()])


@pytest.mark.parametrize("encoded", ["plain", "in a url", "base64"])
def test_a_secret_of_the_settings_is_caught_although_it_looks_like_a_word(
    stream: io.StringIO, encoded: str
) -> None:
    """The name of a person's cat, for example, with a sign that URLs encode."""
    logging_to(stream)
    secret = "mister whiskers/the second"
    key = Key(alias="a", provider="generic", base_url="x", secret=Secret(secret), account="a")
    url = "redis://:horse-battery@127.0.0.1/0"
    know(Settings(pools={"p": Pool(name="p", keys=(key,))}, redis_url=url))
    shown = {
        "plain": secret,
        "in a url": "mister%20whiskers%2Fthe%20second",
        "base64": base64.b64encode(secret.encode()).decode(),
    }[encoded]
    structlog.get_logger().info("thing.happened", field=f"it is {shown}!", other="horse-battery")

    assert shown not in stream.getvalue()
    assert "horse-battery" not in stream.getvalue()


HARMLESS = [
    "the provider answered 429: Rate limit reached for requests",
    "longstream-4242@box.local",
    "ls:{3f9a5b7c1d2e}:log",
    "Task tasks.generate[6f9619ff-8b86-d011-b42d-00cf4fc964ff] received",
    "Task tasks.generate[6f9619ff8b86d011b42d00cf4fc964ff] received",
    "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
    'File "/opt/longstream/lib/python3.11/site-packages/redis/asyncio/connection.py", line 311',
    "/home/someone/projects/2026/longstream/tests/endtoend/test_seeing.py",
    "https://api.openai.com/v1/chat/completions",
    "redis://127.0.0.1:6379/0",
    "gpt-5.5-codex-2026-11-30-preview",
    "set OPENAI_API_KEY and OPENAI_BASE_URL, or define [pools] in longstream.toml",
    "3 tokens were billed; the token budget is 4096",
    "UpstreamFailureAfterTheFirstVisibleDelta",
    "2026-11-30T05:53:49.123456Z",
    "basic limits are strict",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_words_paths_ids_and_addresses_stay_readable(text: str) -> None:
    assert redacted(text) == text


def test_numbers_of_tokens_and_ids_of_jobs_and_traces_are_shown(stream: io.StringIO) -> None:
    logging_to(stream)
    job = "6f9619ff8b86d011b42d00cf4fc964ff"
    structlog.get_logger().info("job.finished", tokens=4096, token=17, job=job, key="acme-1")

    assert all(shown in stream.getvalue() for shown in ("4096", "17", job, "acme-1"))


def test_99_of_100_keys_a_generator_makes_are_caught_without_being_known() -> None:
    """What is missed has no digit and looks like a path."""
    draws = [base64.b64encode(_seeded.randbytes(24 + n % 40)).decode() for n in range(2000)]

    assert sum(key in redacted(f"it was {key}.") for key in draws) <= 20


def test_the_quick_look_lets_nothing_pass_that_the_long_one_would_catch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [str(made(key)) for made in FIELDS.values() for key in LOOKING.values()] + HARMLESS
    quick = [redacted(text) for text in texts]
    monkeypatch.setattr(redaction, "_is_suspect", lambda _: True)

    assert quick == [redacted(text) for text in texts]


def test_a_long_line_takes_no_long_time() -> None:
    for text in ("a" * 10**6, "sk-" * 10**5, "://" * 10**5, "token token " * 10**5, "A1" * 10**5):
        assert len(redacted(text)) <= 64 * 1024 + 3 + len(MARK)
