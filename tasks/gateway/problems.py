"""What can go wrong, as `application/problem+json` with a code that never changes.

A code says what happened, for programs; the title and the detail are for people, and may be
worded anew.
"""

from __future__ import annotations

from typing import Any, overload

import msgspec
import redis
from starlette.responses import Response

from settings.errors import LongstreamError, SettingsError
from worker.errors import StoreError, UnknownJob
from worker.job.submitting import StoreFull
from worker.log.cursor import CursorError
from worker.log.follow import LogExpired, Trimmed
from worker.store.connections import StoreUnreachable
from worker.store.faults import forbids, passes, words_of

MEDIA_TYPE = "application/problem+json"

#: Code to HTTP status and title.
CODES: dict[str, tuple[int, str]] = {
    "malformed": (400, "The request can not be read"),
    "invalid_cursor": (400, "No cursor of this log"),
    "unauthorized": (401, "A valid token is needed"),
    "forbidden": (403, "The token does not allow this"),
    "cross_site": (403, "The request comes from another site"),
    "unknown_host": (403, "The gateway is not called that"),
    "unknown_job": (404, "No such job"),
    "not_found": (404, "Nothing is here"),
    "method_not_allowed": (405, "This can not be done here"),
    "not_ended": (409, "The job has not ended"),
    "key_reused": (409, "The idempotency key belongs to another request"),
    "expired": (410, "The log is past retention"),
    "trimmed": (410, "Entries behind the cursor are gone"),
    "too_large": (413, "The body is too large"),
    "unsupported_media_type": (415, "The body must be JSON"),
    "invalid": (422, "The request can not be carried out"),
    "too_many_failures": (429, "Too many refused tokens"),
    "too_much_at_once": (429, "Too much of this caller is on its way"),
    "failed": (500, "The gateway failed"),
    "store_refused": (500, "Redis refuses for good what was asked"),
    "store_full": (507, "Redis is full"),
    "store_unreachable": (503, "Redis does not answer"),
    "too_many_readers": (503, "The gateway has no room for another reader"),
    "slow_request": (408, "The request took too long to arrive"),
}


#: What OpenAI calls an error of the caller, and those with a name of their own.
_KIND = "invalid_request_error"
_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Problem(Exception):
    """An answer that is not what was asked for. `more`: further members of the document."""

    def __init__(
        self, code: str, detail: str = "", *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(code, detail)
        self.code = code
        self.status, self.title = CODES[code]
        self.detail = detail
        self.headers = headers or {}
        self.more = more

    def document(self) -> dict[str, Any]:
        told = {
            "type": f"urn:longstream:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
        }
        return told | ({"detail": self.detail} if self.detail else {}) | self.more

    def for_clients_of_openai(self) -> dict[str, Any]:
        """The document with what such a client shows and looks at."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else _KIND)
        said = f"{self.title}: {self.detail}" if self.detail else self.title
        error = {"message": said, "type": kind, "param": None, "code": self.code}
        return self.document() | {"error": error}

    def response(self, path: str = "") -> Response:
        """`path`: what was asked for; below /v1/ it is a client of OpenAI that asks."""
        openai = path.startswith("/v1/")
        return Response(
            msgspec.json.encode(self.for_clients_of_openai() if openai else self.document()),
            self.status,
            {"Cache-Control": "no-store", **self.headers},
            MEDIA_TYPE,
        )


#: Errors that speak for themselves; the first that fits.
_PLAIN: tuple[tuple[type[LongstreamError], str], ...] = (
    (LogExpired, "expired"),
    (UnknownJob, "unknown_job"),
    (CursorError, "invalid_cursor"),
    (StoreFull, "store_full"),
    (StoreError, "store_refused"),
    (LongstreamError, "invalid"),
)


@overload
def problem_of(error: LongstreamError) -> Problem: ...
@overload
def problem_of(error: Exception) -> Problem | None: ...
def problem_of(error: Exception) -> Problem | None:
    """What a caller is told of an error of ours; None for one that nobody foresaw."""
    match error:
        case Problem():
            return error
        case Trimmed():
            return Problem("trimmed", str(error), upto=str(error.upto))
        case SettingsError():
            return Problem("invalid", "; ".join(map(str, error.problems)))
        case StoreUnreachable():
            # Its message names the server, which is nobody's business but the operator's.
            return unreachable()
        case redis.RedisError() if passes(error) or forbids(error):
            return unreachable()
        case redis.ResponseError():
            return Problem("store_refused", words_of(error))
    code = next((code for kind, code in _PLAIN if isinstance(error, kind)), None)
    return None if code is None else Problem(code, str(error))


def unreachable() -> Problem:
    """Redis does not answer now; a caller may come back soon."""
    return Problem("store_unreachable", headers={"Retry-After": "2"})
