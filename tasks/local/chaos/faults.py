"""The faults. Each strikes once and leaves the stage able to go on.

None waits for the jobs it hits: whether they recover, and how fast, is for others to see.
"""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import redis

from tasks.application import app
from tasks.local.chaos.plan import Blow, Fault
from tasks.local.chaos.recovery import Recovery
from tasks.local.chaos.stage import LEASE_S, Stage, Worker
from worker.admission.line import Lease
from worker.doctor.probe import alive
from worker.messages.publish import publish
from worker.store.keys import pool_keys

#: How long a frozen or cut off process stays so: long enough to lose its leases.
_AWAY_S = 1.5 * LEASE_S
_STALL_S = 5.0


async def strike(stage: Stage, client: redis.Redis, recovery: Recovery, blow: Blow) -> bool:
    """Do it; False when there was nothing to hit."""
    living = [worker for worker in stage.workers if worker.alive]
    if not living:
        return False
    worker = living[int(blow.draw * len(living))]
    match blow.fault:
        case Fault.KILL:
            await _kill(stage, recovery, worker)
        case Fault.PAUSE:
            await _pause(recovery, worker)
        case Fault.DRAIN:
            recovery.struck(blow.fault, await asyncio.to_thread(recovery.running_on, worker))
            # It still hands back, over its cable, while another takes its place.
            await stage.replace(worker)
            worker.process.terminate()
        case Fault.PARTITION:
            await _cut(stage, worker, readers=blow.draw < 0.5)
        case Fault.REDIS_RESTART:
            await stage.restart_store(signal.SIGTERM)
        case Fault.REDIS_KILL:
            await stage.restart_store(signal.SIGKILL)
        case Fault.UPSTREAM_RESET:
            return stage.upstream.reset(blow.draw) > 0
        case Fault.UPSTREAM_STALL:
            stage.upstream.hold()
            await asyncio.sleep(_STALL_S)
            stage.upstream.release()
        case Fault.DUPLICATE_MESSAGE:
            return await asyncio.to_thread(_send_again, stage, client, blow.draw)
    return True


async def _kill(stage: Stage, recovery: Recovery, worker: Worker) -> None:
    recovery.struck(Fault.KILL, await asyncio.to_thread(recovery.running_on, worker))
    stage.workers.remove(worker)
    worker.process.kill()
    await asyncio.to_thread(worker.process.wait)
    await worker.cable.close()
    await stage.start_worker()


async def _pause(recovery: Recovery, worker: Worker) -> None:
    recovery.struck(Fault.PAUSE, await asyncio.to_thread(recovery.running_on, worker))
    worker.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(_AWAY_S)
    worker.process.send_signal(signal.SIGCONT)


async def _cut(stage: Stage, worker: Worker, *, readers: bool) -> None:
    """Cut a worker off from Redis, and half of the time every reader as well."""
    cables = [worker.cable, stage.readers] if readers else [worker.cable]
    for cable in cables:
        cable.hold()
    await asyncio.sleep(_AWAY_S)
    for cable in cables:
        cable.reset()
        cable.release()


def _send_again(stage: Stage, client: redis.Redis, draw: float) -> bool:
    """The message of a running job once more: to the worker that has it, and to another."""
    heard_of = alive(client, stage.settings)
    for pool in stage.settings.pools:
        held: Any = client.hgetall(pool_keys(pool).held)
        for job_id, stored in sorted(held.items()):
            lease = json.loads(stored)
            if lease["worker"] not in heard_of:
                continue
            again = Lease(job_id.decode(), pool, int(lease["lease"]), str(lease["key"]))
            for name in {str(lease["worker"]), heard_of[int(draw * len(heard_of))]}:
                publish(app, client, name, again)
            return True
    return False
