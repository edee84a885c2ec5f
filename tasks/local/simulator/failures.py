"""Answers that are no answer: errors in the shape of OpenAI's API, as scripts."""

from __future__ import annotations

import msgspec

from tasks.local.simulator.ask import Refusal
from tasks.local.simulator.steps import Framing, Head, Headers, Script, Send


def error_body(message: str, kind: str, code: str | None = None, param: str | None = None) -> bytes:
    """OpenAI's error object."""
    return msgspec.json.encode(
        {"error": {"message": message, "type": kind, "param": param, "code": code}}
    )


def body(
    data: bytes,
    status: int = 200,
    headers: Headers = (),
    content_type: str = "application/json",
) -> Script:
    """A complete answer of one piece."""
    typed = (("content-type", content_type), *headers)
    yield Head(status=status, headers=typed, framing=Framing.LENGTH, length=len(data))
    yield Send(data=data)


def failure(
    status: int,
    message: str,
    kind: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
    headers: Headers = (),
) -> Script:
    """An HTTP error with OpenAI's body."""
    return body(error_body(message, kind, code, param), status, headers)


def refused(refusal: Refusal) -> Script:
    return failure(400, refusal.message, code=refusal.code, param=refusal.param)


def no_key() -> Script:
    return failure(401, "You didn't provide an API key. Send 'Authorization: Bearer KEY'.")


def wrong_key() -> Script:
    return failure(401, "Incorrect API key provided.", code="invalid_api_key")


def no_model(model: str) -> Script:
    message = f"The model '{model}' does not exist or you do not have access to it."
    return failure(404, message, code="model_not_found", param="model")


def wrong_dialect(model: str) -> Script:
    message = f"The model '{model}' is not available on this endpoint."
    return failure(400, message, code="unsupported_model", param="model")


def no_response(name: str) -> Script:
    return failure(404, f"Response with id '{name}' not found.", param="id")


def too_old() -> Script:
    """The refusal of a stream that was begun too long ago."""
    return failure(400, "This response can no longer be streamed: it is more than 5 minutes old.")


def no_path(method: str, path: str) -> Script:
    return failure(404, f"Invalid URL ({method} {path})", code="unknown_url")
