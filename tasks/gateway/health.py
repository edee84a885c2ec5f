"""Probes and metrics: `/healthz`, `/readyz`, `/metrics`.

`/healthz` answers while the gateway's loop turns. `/readyz` says whether work gets done, and to
callers who may read everything also why not. `/metrics` is the fleet as the store knows it, with
this gateway's readers; what a worker process counts, each worker tells itself.
"""

from __future__ import annotations

import asyncio
import time

import msgspec
from starlette.responses import Response

from settings.model import Settings
from tasks.gateway.access import Grant
from tasks.gateway.operations import Call, serves
from tasks.gateway.problems import Problem
from tasks.gateway.tokens import Scope
from worker.seeing.exposition import CONTENT_TYPE, NotInstalled, exposed, fleet_meters
from worker.seeing.meters import Gauge, Meter, meters_of
from worker.seeing.readiness import Readiness, readiness

#: However many probes come, the store is asked once in this time, in seconds.
_KEPT_S = 1.0

_JSON = "application/json"
_NO_STORE = {"Cache-Control": "no-store"}


class GatewayGauges:
    """What a gateway process knows of its readers."""

    def __init__(self) -> None:
        self.readers = Gauge(
            "gateway_readers", "Event streams open at this gateway, and requests that await an end."
        )

    def all(self) -> list[Meter]:
        return meters_of(self)


class Probe:
    """The last readiness, shared by all who ask within `_KEPT_S`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._found: Readiness | None = None
        self._at = 0.0
        self._lock = asyncio.Lock()

    async def look(self) -> Readiness:
        async with self._lock:
            if self._found is None or time.monotonic() - self._at > _KEPT_S:
                self._found = await asyncio.to_thread(readiness, self._settings)
                self._at = time.monotonic()
            return self._found


@serves("GET /healthz", "Whether this gateway lives", None, replies={200: _JSON})
async def _healthz(_: Call) -> Response:
    return Response(b'{"alive":true}\n', headers=_NO_STORE, media_type=_JSON)


@serves(
    "GET /readyz",
    "Whether work gets done: store, workers, keys and line of every pool",
    None,
    replies={200: Readiness, 503: Readiness},
)
async def _readyz(call: Call) -> Response:
    found = await call.request.app.state.probe.look()
    told: object = found if _sees_all(call.grant) else {"ready": found.ready}
    status = 200 if found.ready else 503
    return Response(msgspec.json.encode(told) + b"\n", status, _NO_STORE, _JSON)


@serves(
    "GET /metrics",
    "The fleet in Prometheus' text format",
    Scope.READ,
    replies={200: "text/plain", 501: "text/plain"},
    codes=("forbidden",),
)
async def _metrics(call: Call) -> Response:
    if not _sees_all(call.grant):
        raise Problem("forbidden", "metrics are of all tenants: the token is bound to one")
    own = GatewayGauges()
    own.readers.set(to=len(call.request.app.state.streams))
    try:
        fleet = await asyncio.to_thread(fleet_meters, call.settings)
        text = exposed([*own.all(), *fleet])
    except NotInstalled as error:
        return Response(f"{error}\n", 501, _NO_STORE, "text/plain")
    return Response(text, headers={**_NO_STORE, "Content-Type": CONTENT_TYPE})


def _sees_all(grant: Grant) -> bool:
    return grant.allows(Scope.READ) and grant.tenant is None and grant.job is None


OPERATIONS = (_healthz, _readyz, _metrics)
