"""A failure in one line: what the user reads when a job comes to nothing."""

from __future__ import annotations

import json

from tests.harness.lines import key
from worker.attempt.work import words_of
from worker.upstream.failures import UpstreamFailure, failure_of_answer
from worker.upstream.request import Message, Request

ASKED = Request(model="gpt-9", messages=(Message("user", "x"),))


def test_a_model_nobody_serves_is_named_with_the_way_out() -> None:
    error = {"error": {"message": "No such model.", "code": "model_not_found"}}
    failure = failure_of_answer(404, {}, json.dumps(error).encode())
    said = words_of(failure, key("acme-1"), ASKED)
    assert "key acme-1 does not serve the model gpt-9" in said
    assert "longstream keys check --json" in said


def test_a_network_fault_names_the_address() -> None:
    failure = UpstreamFailure("refused", kind="connect", fault="network", retryable=True)
    assert words_of(failure, key("acme-1"), ASKED) == "refused (127.0.0.1:1)"


def test_any_other_failure_speaks_for_itself() -> None:
    failure = failure_of_answer(400, {}, b'{"error": {"message": "Bad."}}')
    assert words_of(failure, key("acme-1"), ASKED) == str(failure)
