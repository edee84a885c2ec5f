"""A producer that keeps the message instead of publishing it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kombu.exceptions import EncodeError
from kombu.utils.json import dumps

from settings.errors import LongstreamError
from worker.messages.followers import with_ids
from worker.messages.message import Message


class Captured:
    """Stands in for Celery's producer. `message` is what it was given."""

    serializer = "json"

    def __init__(self) -> None:
        self.message: Message | None = None
        self.connection = self

    def __enter__(self) -> Captured:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @contextmanager
    def _reraise_as_library_errors(self) -> Iterator[None]:
        yield

    def publish(self, body: Any, **options: Any) -> None:
        headers = options.pop("headers")
        kept = ("correlation_id", "reply_to", "priority")
        properties = {name: options[name] for name in kept if options.get(name) is not None}
        args, kwargs, embedded = body
        # Signatures may hold what only Celery's JSON knows, such as the time of an ETA.
        try:
            follows = with_ids(json.loads(dumps(embedded)), headers["id"])
        except (TypeError, ValueError, EncodeError) as error:
            raise LongstreamError(
                f"the arguments of what follows the job must be JSON values: {error}"
            ) from error
        self.message = Message(body=[args, kwargs, follows], headers=headers, properties=properties)
