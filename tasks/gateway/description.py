"""The OpenAPI description, made of the operations themselves."""

from __future__ import annotations

from tasks.gateway.operations import Operation

OPERATIONS: tuple[Operation, ...] = ()
