"""What commands leave out of redis-py is there for whoever asks for it afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
from tasks.cli.lean import lean_redis
lean_redis()
import redis
before = sorted(name for name in sys.modules if sys.modules[name] is not None)
import redis.asyncio
import opentelemetry.metrics
client = redis.asyncio.Redis()
print(json.dumps([before, type(client).__module__, redis.asyncio.__name__]))
"""


def test_the_left_out_parts_load_as_ever_once_they_are_asked_for() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    before, client, package = json.loads(done.stdout)

    assert "redis.client" in before
    assert not {"redis.asyncio", "redis.asyncio.client", "opentelemetry.metrics"} & set(before)
    assert (client, package) == ("redis.asyncio.client", "redis.asyncio")
