"""The ASGI application: routes, guards, and the errors of everything in one form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import redis
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from settings.errors import LongstreamError
from settings.model import Settings
from tasks.gateway.bodies import Bodies
from tasks.gateway.callers import Callers, valid_tokens
from tasks.gateway.description import description
from tasks.gateway.frames import frame_of, size_of
from tasks.gateway.guard import Guard
from tasks.gateway.health import Probe
from tasks.gateway.problems import Problem, problem_of
from tasks.gateway.routes import OPERATIONS, routes
from tasks.gateway.streams import Streams
from worker.log.hub import Hub


def create(settings: Settings, *, open_locally: bool) -> Starlette:
    """`open_locally`: callers need no token, for only this machine can reach the gateway."""
    callers = Callers(open_locally=open_locally)
    app = Starlette(
        routes=routes(),
        middleware=[
            Middleware(Guard, settings=settings, callers=callers, open_locally=open_locally)
        ],
        exception_handlers={
            HTTPException: _of_routing,
            Problem: _told,
            LongstreamError: _told,
            redis.RedisError: _told,
        },
        lifespan=_lifespan,
    )
    app.router.redirect_slashes = False
    app.state.settings = settings
    app.state.callers = callers
    app.state.probe = Probe(settings)
    app.state.description = description(OPERATIONS)
    app.state.bodies = Bodies(settings.gateway.max_body_bytes)
    app.state.streams = Streams(settings.gateway.readers)
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    streams: Streams = app.state.streams
    async with Hub(app.state.settings.store_url, frame_of, size_of) as hub:
        app.state.hub = hub
        valid = partial(valid_tokens, hub)
        tasks = [
            asyncio.create_task(streams.watch()),
            asyncio.create_task(streams.end_revoked(valid)),
        ]
        yield
        for task in tasks:
            task.cancel()


async def _told(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem is None:
        raise error
    return problem.response(request.url.path)


async def _of_routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "malformed")
    headers = dict(error.headers or {})
    return Problem(code, headers=headers).response(request.url.path)
