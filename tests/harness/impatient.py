"""The worker's app with a broker that gives messages out again after five seconds."""

from __future__ import annotations

from worker.app import app

VISIBILITY_S = 5

app.conf.broker_transport_options |= {"visibility_timeout": VISIBILITY_S}

__all__ = ["app"]
