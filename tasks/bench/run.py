"""A whole run: its phases, one behind the other, each going on where an earlier call stopped.

Against configured pools there is one phase, the jobs themselves. A simulated run has three: `pace`,
some samples at the provider's own pace for the times; `ours`, all of them with faults and with all
silences shortened; and `sdk`, the same for the official SDK.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from importlib import metadata
from typing import Protocol

from settings.model import Settings
from tasks import current
from tasks.bench import sdk
from tasks.bench.book import Book
from tasks.bench.drive import Drive, One
from tasks.bench.figures import Figures, figures
from tasks.bench.ours import Ours
from tasks.bench.plan import Task, task
from tasks.bench.purse import Purse
from tasks.bench.report import Report
from tasks.bench.sample import Sample
from tasks.bench.stage import Judge, Stage
from worker.ledger.cost import cost_of
from worker.store.connections import connect_async

#: The modes of a run, as the state file has them.
CONFIGURED, SIMULATED = "configured", "simulated"
JOBS, PACE, OURS, SDK = "jobs", "pace", "ours", sdk.PHASE

#: The load with the faults, and the same without them.
FIELD, CALM = "sim:field", "sim:field-calm"
#: Streams the worker of a stage may run beyond what is asked at a time: those that wait to end.
_SPARE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`model` of a simulated run is only what its tokens are priced as."""

    samples: int
    concurrency: int
    efforts: tuple[str, ...]
    model: str
    max_cost: Decimal | None
    factor: float = 1.0
    timed: int = 0
    with_sdk: bool = True


class Progress(Protocol):
    def say(self, line: str) -> None: ...

    def phase(self, title: str, done: int, of: int) -> None:
        """What comes next, and how much of it is there already."""

    def sample(self, sample: Sample, spent: str) -> None: ...


class Run:
    def __init__(self, options: Options, book: Book, settings: Settings, show: Progress) -> None:
        self._options = options
        self._book = book
        self._show = show
        self._price = settings.price(options.model)
        self._purse = Purse(options.max_cost, options.model, self._price)
        for sample in book.samples.values():
            self._purse.settle(sample)
        self._stopped = False

    async def configured(self, settings: Settings) -> Report:
        """All samples as jobs of the pools that are configured. Needs `settings` in use."""
        options = self._options
        await self._jobs(JOBS, "samples", options.samples, settings, options.model, None)
        found = self._figures(JOBS, options.samples)
        return self._report(found, found, None)

    async def simulated(self) -> Report:
        options, show = self._options, self._show
        timed = min(options.timed, options.samples)
        if self._todo(PACE, timed):
            with _staged(PACE, 1.0, options.concurrency, show.say) as settings:
                await self._judged(PACE, "at the provider's pace", timed, settings, CALM)
        if self._todo(OURS, options.samples) and not self._stopped:
            with _staged(OURS, options.factor, options.concurrency, show.say) as settings:
                await self._judged(
                    OURS, "with faults, longstream", options.samples, settings, FIELD
                )
        with_sdk = options.with_sdk and sdk.version() is not None
        if with_sdk and self._todo(SDK, options.samples) and not self._stopped:
            stage = Stage(SDK, options.factor, options.concurrency, show.say)
            try:
                await self._sdk(stage.open(worker=False))
            finally:
                stage.close()
        theirs = self._figures(SDK, options.samples) if with_sdk else None
        return self._report(
            self._figures(PACE, timed), self._figures(OURS, options.samples), theirs
        )

    async def _judged(
        self, phase: str, title: str, count: int, settings: Settings, model: str
    ) -> None:
        judge, first = Judge(settings, model), self._book.untouched(phase)
        await self._jobs(phase, title, count, settings, model, judge)
        if first:
            self._book.bill(phase, await judge.billed())

    async def _jobs(
        self,
        phase: str,
        title: str,
        count: int,
        settings: Settings,
        model: str,
        judge: Judge | None,
    ) -> None:
        client = connect_async(settings.store_url)
        truth = judge.truth if judge else None
        ours = Ours(phase, model, client, self._book, truth, self._show.say)
        try:
            await self._drive(phase, title, count, ours.one)
        finally:
            await client.aclose()

    async def _sdk(self, settings: Settings) -> None:
        judge, options = Judge(settings, FIELD), self._options
        first = self._book.untouched(SDK)
        contender = sdk.Sdk(judge.base_url, FIELD, options.factor, judge.truth)
        try:
            await self._drive(SDK, "with faults, official SDK", options.samples, contender.one)
            if first:
                self._book.bill(SDK, await judge.billed())
        finally:
            await contender.close()

    async def _drive(self, phase: str, title: str, count: int, one: One) -> None:
        todo = self._todo(phase, count)
        self._show.phase(title, count - len(todo), count)
        driving = Drive(phase, self._book, self._purse, self._heard)
        await driving.run(iter(todo), one, min(self._options.concurrency, len(todo) or 1))
        self._stopped |= driving.stopped

    def _todo(self, phase: str, count: int) -> list[Task]:
        every = (n for n in range(count) if (phase, n) not in self._book.samples)
        return [task(n, self._options.efforts) for n in every]

    def _heard(self, sample: Sample) -> None:
        self._show.sample(sample, self._purse.spent)

    def _figures(self, phase: str, count: int) -> Figures:
        samples = [sample for sample in self._book.of(phase) if sample.n < count]
        return figures(phase, samples, self._book.seconds.get(phase, 0.0))

    def _report(self, pace: Figures, ours: Figures, theirs: Figures | None) -> Report:
        options, simulated = self._options, self._book.header.mode == SIMULATED
        cost = f"cost: {cost_of(ours.tokens, self._price)}"
        if ours.wasted.output or ours.wasted.input:
            cost += f" (of which interrupted attempts took {cost_of(ours.wasted, self._price)})"
        if simulated:
            cost = f"priced as {options.model}, {cost}; nothing was paid"
        return Report(
            model=FIELD if simulated else options.model,
            simulated=simulated,
            factor=options.factor,
            efforts=options.efforts,
            asked=options.samples,
            concurrency=options.concurrency,
            complete=not self._stopped,
            stopped=f"the spend limit of {options.max_cost} USD" if self._stopped else "",
            cost=cost,
            versions=_versions(),
            pace=pace,
            ours=ours,
            sdk=theirs,
            judged=simulated,
            billed=self._book.billed(ours.phase) if simulated else None,
            billed_sdk=self._book.billed(SDK) if theirs is not None else None,
        )


@contextmanager
def _staged(
    name: str, factor: float, concurrency: int, say: Callable[[str], None]
) -> Iterator[Settings]:
    """A stage whose settings this process uses."""
    stage = Stage(name, factor, concurrency + _SPARE, say)
    try:
        settings = stage.open()
        current.use(settings)
        yield settings
    finally:
        stage.close()


def _versions() -> dict[str, str | None]:
    return {
        "longstream": metadata.version("longstream"),
        "python": platform.python_version(),
        "openai": sdk.version(),
    }
