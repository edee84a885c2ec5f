"""What a worker refuses before it starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from worker.steps import startup


def instance() -> Any:
    settings = SimpleNamespace(require_pools=lambda: None)
    return SimpleNamespace(app=SimpleNamespace(longstream=settings), hostname="w1@somewhere")


@pytest.mark.parametrize("pool", ["gevent", "eventlet", "solo"])
def test_pools_that_can_not_work_are_refused_with_the_reason(pool: str) -> None:
    options = {"pool": f"<class 'celery.concurrency.{pool}.TaskPool'>"}
    with pytest.raises(SystemExit, match=f"the Celery pool {pool} is refused: it") as refused:
        startup.check(instance(), SimpleNamespace(worker_pool="threads"), options)
    assert "\n" not in str(refused.value)


def test_a_name_that_was_given_is_kept() -> None:
    worker = instance()
    startup.check(worker, SimpleNamespace(worker_pool="threads"), {})
    assert worker.hostname == "w1@somewhere"
