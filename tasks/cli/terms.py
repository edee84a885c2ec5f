"""The options that say on which terms a job is submitted, the same for every command that does."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from tasks.cli.amounts import USD

if TYPE_CHECKING:
    from decimal import Decimal

    from worker.job.terms import Terms

#: As worker.job.terms.OnInterrupt has them; help loads nothing of the worker.
ON_INTERRUPT = ("auto", "restart", "continue", "fail")

_Typed = TypeVar("_Typed", str, str | None, tuple[str, ...])

_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
#: Nobody waits for longer, and a number of milliseconds must fit everywhere.
_LONGEST_S = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for; `job_id` None: an id is made."""

    on_interrupt: str
    deadline_s: float | None
    job_id: str | None
    max_cost: Decimal | None = None

    def terms(self) -> Terms:
        from worker.job.terms import OnInterrupt, Terms

        return Terms(
            on_interrupt=OnInterrupt(self.on_interrupt),
            deadline_s=self.deadline_s,
            max_cost_usd=None if self.max_cost is None else float(self.max_cost),
        )

    @property
    def given(self) -> bool:
        """True when anything of it was."""
        return self != Asked(on_interrupt="auto", deadline_s=None, job_id=None)


def seconds_of(typed: str) -> float:
    """Seconds, or a number with a unit: 90, 90s, 15m, 2h, 1d. Raises click.BadParameter."""
    found = _DURATION.fullmatch(typed.strip().lower())
    seconds = float(found[1]) * _UNITS_S[found[2]] if found else 0.0
    if not 0 < seconds <= _LONGEST_S:
        raise click.BadParameter(f"{typed!r} is no duration: 90s, 15m, 2h or 1d can be one")
    return seconds


def named(context: click.Context, option: click.Parameter, typed: _Typed) -> _Typed:
    """The callback of an option that names something: empty, as an unset variable makes it, is a
    mistake that must not pass for the default."""
    assert option.name is not None
    source = context.get_parameter_source(option.name)
    each = typed if isinstance(typed, tuple) else (typed,)
    if source is ParameterSource.COMMANDLINE and "" in each:
        raise click.BadParameter("is empty: name one, or leave the option out")
    return typed


def _id(context: click.Context, option: click.Parameter, typed: str | None) -> str | None:
    """The callback of --id: what is none is refused before anything is started for it."""
    from worker.store.keys import JOB_ID_SHAPE, is_job_id

    if named(context, option, typed) is not None and not is_job_id(str(typed)):
        raise click.BadParameter(f"{typed!r} is no job id: {JOB_ID_SHAPE}")
    return typed


def duration(_: click.Context, __: click.Parameter, typed: str | None) -> float | None:
    """The callback of an option that takes one."""
    return None if typed is None else seconds_of(typed)


def with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """The options, handed to the command as `asked`."""

    @click.option(
        "--on-interrupt",
        type=click.Choice(ON_INTERRUPT),
        default="auto",
        help="When the stream is cut: take it up if the provider keeps it, else restart (auto, the "
        "default); restart; ask for the rest behind the text; or fail.",
    )
    @click.option(
        "--deadline",
        "deadline_s",
        callback=duration,
        metavar="TIME",
        help="Give up when it has not ended by then: 90s, 15m, 2h from now.",
    )
    @click.option(
        "--max-cost",
        type=USD,
        help="Stop when it has cost so many USD, and keep the text; of several jobs, each at its "
        "share.",
    )
    @click.option(
        "--id",
        "job_id",
        callback=_id,
        metavar="ID",
        help="The job's id. The same id again is the same job, and nothing is asked twice.",
    )
    @functools.wraps(command)
    def gathered(
        *args: Any,
        on_interrupt: str,
        deadline_s: float | None,
        max_cost: Decimal | None,
        job_id: str | None,
        **kwargs: Any,
    ) -> None:
        asked = Asked(
            on_interrupt=on_interrupt, deadline_s=deadline_s, job_id=job_id, max_cost=max_cost
        )
        command(*args, asked=asked, **kwargs)

    return gathered
