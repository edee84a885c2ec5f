"""`OUTPUT.batch`, a small file beside the output: what a batch is, beyond the lines it has written.

It has the name of the run, which goes into the ids of its jobs; which lines were asked again after
their jobs had ended badly, and how often, since a job's id is never used twice; and what was paid
that the output does not say. It is replaced as a whole, and before the output is.
"""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from settings.errors import LongstreamError
from tasks.edits.disk import create_or_replace

_RUN_BYTES = 5


class UnreadableState(LongstreamError):
    """It is none of this command's, or was changed."""


class BatchState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`again`: how often a line was asked anew, by its number. `lost_usd`: what was paid for errors
    that are no more in the output, and for attempts that were thrown away."""

    run: Annotated[str, Meta(pattern="^[0-9a-f]{1,64}$")]
    again: dict[int, int] = {}
    lost_usd: Decimal = Decimal(0)

    @classmethod
    def new(cls) -> Self:
        return cls(run=os.urandom(_RUN_BYTES).hex())

    def job_id(self, line: int, digest: str) -> str:
        """The same for every command that works on this batch."""
        times = self.again.get(line)
        return f"{self.run}.{line}.{digest}" + (f".{times}" if times else "")


def state_file(output: Path) -> Path:
    return output.with_name(f"{output.name}.batch")


def load(path: Path) -> BatchState | None:
    """None when there is none. Raises UnreadableState, or OSError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=BatchState)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise UnreadableState(f"{path} can not be read") from error


def store(path: Path, state: BatchState) -> None:
    create_or_replace(path, msgspec.json.encode(state) + b"\n")
