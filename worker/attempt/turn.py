"""What one attempt asks the provider: its request, or a follow-up that corrects an answer."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from settings.routing import AUTO
from worker.attempt.reading import Reading, Unusable
from worker.attempt.work import Work
from worker.log.claim import Claim
from worker.log.entries import Mode
from worker.upstream.request import Message, Request

_CONTINUE = (
    "Your answer was cut off. Go on exactly behind its last character. "
    "Repeat nothing, and add no remark about the interruption."
)


@dataclass(frozen=True, slots=True)
class Turn:
    """`said` is what the provider has said of this answer in earlier attempts. `request` None: what
    was to be corrected is usable as it is."""

    request: Request | None
    reading: Reading
    said: str


def turn_of(work: Work, claim: Claim, said: str) -> Turn:
    """The turn that a claim is for; `said` is all text before it."""
    request: Request | None = _with_model(work.build(), claim.account.ticket.model)
    reading = work.read()
    if claim.repair is not None:
        first, said = said[: claim.repair.offset], said[claim.repair.offset :]
        reading.take(first)
        reading.close()
        try:
            reading.finish()
            return Turn(None, reading, "")
        except Unusable as broken:
            request, reading = _behind(request, first, broken.correction), broken.again
    reading.take(said)
    if claim.mode is Mode.CONTINUE:
        request = _behind(request, said, _CONTINUE)
    return Turn(request, reading, said)


def _with_model(request: Request, chosen: str) -> Request:
    """`auto` was a question; the job's ticket has the answer."""
    if request.model != AUTO or not chosen:
        return request
    return msgspec.structs.replace(request, model=chosen)


def _behind(request: Request | None, said: str, more: str) -> Request:
    """The request that goes on a conversation."""
    assert request is not None
    added = (Message("assistant", said), Message("user", more))
    return msgspec.structs.replace(request, messages=(*request.messages, *added))
