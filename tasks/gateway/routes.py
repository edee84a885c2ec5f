"""All operations of the gateway. What is added here is served, guarded and described."""

from __future__ import annotations

from starlette.routing import BaseRoute

from tasks.gateway import description, events, health, jobs, overview, responses
from tasks.gateway.operations import Operation, route_of
from tasks.gateway.page import operations as page

OPERATIONS: tuple[Operation, ...] = (
    *jobs.OPERATIONS,
    *events.OPERATIONS,
    *health.OPERATIONS,
    *overview.OPERATIONS,
    *responses.OPERATIONS,
    *description.OPERATIONS,
    *page.OPERATIONS,
)


def routes() -> list[BaseRoute]:
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    return [route_of(operations) for operations in by_path.values()]
