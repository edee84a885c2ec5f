"""Writes logs at a pace, as workers would: one process, told on stdin what to do.

    python -m tests.benchmarks.reader_load.writing URL JOBS RATE

Says `ready` once every job has begun, writes from `go` on, and seals all of them at `seal`. Each
delta's text is the time it was written at, so whoever reads it knows how old it is.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.harness.logs import LogMaker
from worker.log.entries import Mode
from worker.store.connections import connect
from worker.store.keys import job_keys

#: Jobs are written in so many turns between two deltas of one of them, so that load is even.
TURNS = 20


def name_of(number: int) -> str:
    return f"load{number:05d}"


class Load:
    def __init__(self, url: str, jobs: int, rate: float) -> None:
        self._client = connect(url)
        self._logs = {name_of(number): LogMaker() for number in range(jobs)}
        self._written = dict.fromkeys(self._logs, 0)
        self._pause_s = 1 / rate / TURNS
        self.deltas = 0

    def begin(self) -> None:
        for log in self._logs.values():
            log.claim(Mode.START)
        self._write(list(self._logs))
        pipeline = self._client.pipeline(transaction=False)
        for job in self._logs:
            fields: Any = {"state": "running", "task": "t", "model": "m", "pool": "p"}
            pipeline.hset(
                job_keys(job).record,
                mapping={**fields, "attempt": 1, "worker": "w", "key": "k", "tenant": "default"},
            )
        pipeline.execute()

    def write(self, stopped: threading.Event) -> None:
        jobs = list(self._logs)
        turns = [jobs[turn::TURNS] for turn in range(TURNS)]
        due, turn = time.monotonic(), 0
        while not stopped.is_set():
            for job in turns[turn % TURNS]:
                self._logs[job].say(f"{time.monotonic_ns():020d} ")
                self.deltas += 1
            self._write(turns[turn % TURNS])
            turn += 1
            due += self._pause_s
            time.sleep(max(0.0, due - time.monotonic()))

    def seal(self) -> None:
        for log in self._logs.values():
            log.seal()
        self._write(list(self._logs))
        pipeline = self._client.pipeline(transaction=False)
        for job in self._logs:
            pipeline.hset(job_keys(job).record, mapping={"state": "ended", "outcome": "completed"})
        pipeline.execute()

    def _write(self, jobs: list[str]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for job in jobs:
            log = self._logs[job].log
            for stored in log[self._written[job] :]:
                fields: Any = {"e": stored.payload, "c": str(stored.check)}
                pipeline.xadd(job_keys(job).log, fields, id=str(stored.at))
            # The last one is what the next one's check is chained to.
            del log[:-1]
            self._written[job] = 1
        pipeline.execute()


def main() -> None:
    load = Load(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    load.begin()
    print("ready", flush=True)
    stopped = threading.Event()
    writing = threading.Thread(target=load.write, args=(stopped,))
    for line in sys.stdin:
        if line.strip() == "go":
            writing.start()
        else:
            stopped.set()
            writing.join()
            load.seal()
            print(load.deltas, flush=True)
            return


if __name__ == "__main__":
    main()
