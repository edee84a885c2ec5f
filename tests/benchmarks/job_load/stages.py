"""Where the time of a job goes, as the server saw it: every command it ran, with its time.

What a stage is called ends with the moment in brackets: `submit` (the record is there), `grant`
(the lease is), `message` (it is in the worker's queue), `claim` (the attempt has begun), `request`
(the provider has it), `first byte` (the first delta is in the log).
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import redis

from worker.store.keys import job_keys

STAGES = ("submit", "grant", "message", "claim", "request", "first byte")
_ASKED = re.compile(r"asked (\d+) ")


class Watched:
    """All commands a server runs, from now until `stop`."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._seen: list[tuple[float, str]] = []
        self._ready = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def stages_of(self, job: str, queue: str, began: float) -> dict[str, float] | None:
        """Seconds of each stage of a job submitted at `began`; None while one is not over."""
        keys, ends = job_keys(job), [began]
        marks = (
            lambda said: f"HSET {keys.record} state waiting" in said,
            lambda said: ":held " in said and said.startswith("HSET") and job in said,
            lambda said: said.startswith(f"LPUSH {queue} "),
            lambda said: said.startswith(f"XADD {keys.log} 1-0 "),
            lambda said: said.startswith(f"XADD {keys.log} NOMKSTREAM 1-1 "),
        )
        seen = [(at, said) for at, said in list(self._seen) if at >= began]
        for mark in marks:
            found = next(((at, said) for at, said in seen if mark(said)), None)
            if found is None:
                return None
            at, said = found
            if (asked := _ASKED.search(said)) is not None:
                ends.append(int(asked[1]) / 1e6)
            ends.append(at)
        steps = zip(STAGES, ends, ends[1:], strict=False)
        return {name: upto - since for name, since, upto in steps}

    def forget(self) -> None:
        self._seen.clear()

    def stop(self) -> None:
        self._stopping = True
        self._client.ping()
        self._thread.join(10)

    def _listen(self) -> None:
        with self._client.monitor() as monitor:
            self._ready.set()
            for command in monitor.listen():
                if self._stopping:
                    return
                heard: Any = command
                self._seen.append((heard["time"], heard["command"]))


def waited_for(watched: Watched, job: str, queue: str, began: float) -> dict[str, float]:
    """The stages of a job once they are over."""
    deadline = time.monotonic() + 20
    while (stages := watched.stages_of(job, queue, began)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"job {job} did not get to its first delta")
        time.sleep(0.005)
    return stages
