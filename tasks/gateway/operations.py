"""An operation: one method of one path, with everything that is known of it before a call.

Whatever is checked of a request is checked here, from what the operation declares: the scope of
the caller, the types of the query and of the body, the size of the body. A handler gets a `Call`
whose parts have their types, and the description of the API is made of the same declarations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from settings.model import Settings
from tasks.gateway.access import Grant
from tasks.gateway.bodies import Bodies
from tasks.gateway.faults import said_of, unreadable
from tasks.gateway.problems import Problem
from tasks.gateway.tokens import Scope


@dataclass(frozen=True, slots=True)
class Call:
    """`query` and `body` have the types the operation declares; None where it declares none."""

    request: Request
    grant: Grant
    query: Any
    body: Any

    @property
    def settings(self) -> Settings:
        settings: Settings = self.request.app.state.settings
        return settings

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])


Handler = Callable[[Call], Awaitable[Response]]


class Header(NamedTuple):
    """A header of a request that means something, and the pattern of its value."""

    name: str
    meaning: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`scope` None: open to everybody, without a token. `replies`: status to what is in the body, a
    type, a media type, or several media types. `codes`: the problems it has beside those that every
    operation has."""

    method: str
    path: str
    handler: Handler
    summary: str
    scope: Scope | None
    query: type | None = None
    body: Any = None
    headers: tuple[Header, ...] = ()
    replies: dict[int, Any] = field(default_factory=dict)
    codes: tuple[str, ...] = ()
    #: False for what is made for people, and is no part of the API.
    described: bool = True


def serves(
    call: str, summary: str, scope: Scope | None, **declared: Any
) -> Callable[[Handler], Operation]:
    """Makes an operation of its handler; `call` is a method and a path."""
    method, path = call.split()

    def made(handler: Handler) -> Operation:
        return Operation(
            method=method, path=path, handler=handler, summary=summary, scope=scope, **declared
        )

    return made


def route_of(operations: list[Operation]) -> Route:
    """The route of the operations of one path."""
    by_method = {operation.method: operation for operation in operations}

    async def endpoint(request: Request) -> Response:
        operation = by_method["GET" if request.method == "HEAD" else request.method]
        request.state.operation = operation
        return await operation.handler(await _call(operation, request))

    return Route(operations[0].path, endpoint, methods=list(by_method))


async def _call(operation: Operation, request: Request) -> Call:
    grant: Grant | None = request.state.grant
    if operation.scope is not None:
        if grant is None:
            raise Problem(
                "unauthorized",
                "send `Authorization: Bearer TOKEN`; `longstream token create` makes one",
                headers={"WWW-Authenticate": "Bearer"},
            )
        grant.require(operation.scope)
    query = _query(operation, request)
    body = await _body(operation, request)
    return Call(request, grant or _NOBODY, query, body)


def _query(operation: Operation, request: Request) -> Any:
    if operation.query is None:
        return None
    given = request.query_params.multi_items()
    values = dict(given)
    if len(values) != len(given):
        raise Problem("malformed", "a parameter of the query is given twice")
    try:
        return msgspec.convert(values, operation.query, strict=False)
    except msgspec.ValidationError as error:
        raise Problem("malformed", f"query: {said_of(error, operation.query)}") from error


async def _body(operation: Operation, request: Request) -> Any:
    if operation.body is None:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem("unsupported_media_type", "send `Content-Type: application/json`")
    bodies: Bodies = request.app.state.bodies
    received = await bodies.received(request)
    try:
        return msgspec.json.decode(received, type=operation.body)
    except msgspec.ValidationError as error:
        raise Problem("invalid", f"body: {said_of(error, operation.body)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("malformed", f"body: {unreadable(error)}") from error


_NOBODY = Grant(name="nobody", scopes=frozenset())
