"""The simulator as a judge: what it refuses, and what it remembers."""

from __future__ import annotations

import json

import msgspec

from tasks.local.simulator.limits import Allowed, Judge, LimitsFile
from tasks.local.simulator.steps import Head, Script, Send


class Provider:
    """A judge with a clock that stands still until it is told."""

    def __init__(self, *, headers: bool = False, **limits: int) -> None:
        self.now = 100.0
        allowed = Allowed(secrets=("sk-1", "sk-2"), **limits)
        self.judge = Judge(LimitsFile({"a": allowed}, headers=headers), clock=lambda: self.now)
        self.count = 0

    def ask(self, tokens: int = 1, secret: str = "sk-1") -> Head:
        self.count += 1
        script = self.judge.judge(secret, str(self.count), tokens, _answer())
        head = next(script)
        assert isinstance(head, Head)
        return head

    def seen(self) -> dict[str, int]:
        report = list(self.judge.report())[1]
        assert isinstance(report, Send)
        seen: dict[str, int] = json.loads(report.data)["a"]
        return seen


def _answer() -> Script:
    yield Head()
    yield Send(data=b"x")


def test_requests_count_in_a_window_that_slides() -> None:
    provider = Provider(requests=2)
    assert [provider.ask().status for _ in range(3)] == [200, 200, 429]
    provider.now += 59.9
    assert provider.ask().status == 429
    provider.now += 0.2
    assert provider.ask().status == 200
    assert provider.seen()["refused"] == 2
    assert provider.seen()["worst_requests"] == 2


def test_a_refusal_says_exactly_when_the_request_would_fit() -> None:
    provider = Provider(tokens=100)
    for _ in range(4):
        provider.ask(25)
        provider.now += 10
    head = provider.ask(40)
    assert head.status == 429
    wait_ms = int(dict(head.headers)["retry-after-ms"])
    provider.now += (wait_ms - 2) / 1000
    assert provider.ask(40).status == 429
    provider.now += 2 / 1000
    assert provider.ask(40).status == 200
    assert provider.seen()["worst_tokens"] == 100


def test_streams_count_until_they_are_done() -> None:
    provider = Provider(streams=1)
    assert provider.ask().status == 200
    assert provider.ask(secret="sk-2").status == 429, "the other key is of the same account"
    provider.judge.done("1")
    provider.judge.done("2")
    assert provider.ask().status == 200


def test_answers_say_what_is_left_if_they_are_told_to() -> None:
    provider = Provider(headers=True, requests=2, tokens=100)
    headers = dict(provider.ask(30).headers)
    assert headers["x-ratelimit-remaining-requests"] == "1"
    assert headers["x-ratelimit-remaining-tokens"] == "70"
    assert headers["x-ratelimit-limit-tokens"] == "100"


def test_who_is_not_in_the_file_is_not_limited() -> None:
    provider = Provider(requests=1)
    assert {provider.ask(secret="sk-9").status for _ in range(5)} == {200}


def test_the_file_is_read_as_documented() -> None:
    text = b'{"window_s": 6, "accounts": {"acme": {"secrets": ["sk-1"], "requests": 60}}}'
    limits = msgspec.json.decode(text, type=LimitsFile)
    assert limits.accounts["acme"] == Allowed(secrets=("sk-1",), requests=60)
