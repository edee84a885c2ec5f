"""What stands before every request: who calls, from where, and under which name.

On loopback no token is needed, since whoever can connect is on this machine. So two things must
not get a web page of elsewhere in: a name that was made to point here (the host is checked), and a
request that another site's page sends (its origin is checked).
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from settings.model import Settings
from tasks.gateway.callers import Callers
from tasks.gateway.problems import Problem, problem_of

_LOCAL_NAMES = frozenset({"127.0.0.1", "::1"})
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_ONCE = (
    "host",
    "authorization",
    "content-type",
    "origin",
    "sec-fetch-site",
    "idempotency-key",
    "last-event-id",
)
_READING = frozenset({"GET", "HEAD", "OPTIONS"})

_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_log = structlog.get_logger()


class Guard:
    """Middleware: answers what may not pass, says in `state.grant` what a caller may do, and logs
    what was answered: the operation, never what was in the path, the query or the body."""

    def __init__(
        self, app: ASGIApp, settings: Settings, callers: Callers, *, open_locally: bool
    ) -> None:
        self._app = app
        self._open = open_locally
        self._callers = callers
        self._names = _LOCAL_NAMES | {name.strip() for name in settings.gateway.hosts.split(",")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        state = scope.setdefault("state", {})
        state["grant"] = None
        began = time.monotonic()

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY.items():
                    headers.setdefault(name, value)
                state["status"] = message["status"]
                _tell(scope, state, began)
            await send(message)

        headers = Headers(scope=scope)
        try:
            _require_once(headers)
            self._require_known_host(headers)
            _require_same_site(scope, headers)
            state["grant"] = await self._callers.grant(scope, headers, scope["app"].state.hub)
            await self._app(scope, receive, secured)
        except Exception as error:
            if state.get("status") is not None:
                raise
            problem = problem_of(error)
            if problem is None:
                _log.exception("gateway.failed", path=_path_of(state))
                problem = Problem("failed", "this is a bug; the gateway's log says more")
            await problem.response(scope["path"])(scope, receive, secured)

    def _require_known_host(self, headers: Headers) -> None:
        if not self._open:
            return
        name = _name_of(headers.get("host", ""))
        if name not in self._names:
            raise Problem(
                "unknown_host",
                "call it localhost, or name the host in LONGSTREAM_GATEWAY__HOSTS",
            )


def _require_once(headers: Headers) -> None:
    """Of two, a proxy may have looked at the one and this at the other."""
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            raise Problem("malformed", f"the header {name} is there twice")


def _require_same_site(scope: Scope, headers: Headers) -> None:
    """A browser says where a request comes from; a page of another site may not change anything."""
    if scope["method"] in _READING:
        return
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem("cross_site")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        raise Problem("cross_site")


def _path_of(state: dict[str, Any]) -> str:
    """The path as the operation has it: what stands in it may be anything."""
    operation = state.get("operation")
    return operation.path if operation is not None else "-"


def _tell(scope: Scope, state: dict[str, Any], began: float) -> None:
    grant = state["grant"]
    _log.info(
        "gateway.answered",
        method=scope["method"] if scope["method"] in _METHODS else "-",
        path=_path_of(state),
        status=state["status"],
        caller=grant.name if grant is not None else "-",
        ms=round((time.monotonic() - began) * 1000, 1),
    )


def _name_of(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
