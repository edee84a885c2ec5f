"""Runs every scenario of every quirk through each client, one after the other, and judges it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from tasks.local.simulator.ledger import key_hash
from tasks.local.simulator.scenarios import every
from tests.benchmarks.quirk_table import official, ours, own
from tests.benchmarks.quirk_table.catalogue import QUIRKS
from tests.benchmarks.quirk_table.judging import Judged, Verdict, judge
from tests.benchmarks.quirk_table.right import Quirk
from tests.benchmarks.quirk_table.seen import Api, Question, Reader, Seen, sent_to, watched
from tests.harness.simulator import Simulator

CLIENT, SDK = "longstream", "openai"

#: Silences of paced scenarios last a tenth.
PACE = "10"


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario, in one dialect, through one client."""

    scenario: str
    api: str
    client: str
    judged: Judged


@dataclass(slots=True)
class Row:
    """One quirk, and all its runs. A client is as good as its worst run."""

    quirk: Quirk
    runs: list[Run] = field(default_factory=list)

    def verdict(self, client: str) -> Verdict | None:
        return max((run.judged.verdict for run in self.runs if run.client == client), default=None)

    def wrong(self, client: str) -> list[Run]:
        return [run for run in self.runs if run.client == client and run.judged.verdict]


@dataclass(frozen=True, slots=True)
class Places:
    """Where the simulators are: without silences, and with short ones."""

    fast: str
    paced: str


@contextmanager
def simulators() -> Iterator[Places]:
    with ExitStack() as stack:
        urls = []
        for speed in ("max", PACE):
            simulator = Simulator(speed=speed)
            stack.callback(simulator.stop)
            urls.append(simulator.url)
        yield Places(*urls)


async def measure(places: Places, clients: Sequence[str], *, quick: bool) -> list[Row]:
    """Every quirk; in a quick run only those that take no time."""
    readers = {CLIENT: ours.reader, SDK: official.reader}
    async with AsyncExitStack() as stack:
        open_readers = {name: await stack.enter_async_context(readers[name]()) for name in clients}
        rows = []
        for quirk in QUIRKS:
            setting = quirk.setting
            if not quick or not (setting.short or setting.paced or setting.retries):
                rows.append(await _row(quirk, places, open_readers, quick=quick))
        return rows


async def _row(quirk: Quirk, places: Places, readers: dict[str, Reader], *, quick: bool) -> Row:
    row = Row(quirk)
    if quirk.number in _OWN:
        for client in readers:
            row.runs += await _OWN[quirk.number](quirk, places, client)
        return row
    for scenario in every().values():
        if scenario.quirk != quirk.number:
            continue
        apis: list[Api] = [api for api in ("chat", "responses") if scenario.speaks(api)]  # type: ignore[misc]
        for api in apis[:1] if quick or quirk.setting.chat_only else apis:
            for client, reader in readers.items():
                row.runs.append(await _run(quirk, scenario.name, api, client, reader, places))
    return row


async def _run(
    quirk: Quirk, model: str, api: Api, client: str, reader: Reader, places: Places
) -> Run:
    question = _question(quirk, model, api, client, places)
    seen = await watched(reader, question)
    sent = await sent_to(question.url, key_hash(question.secret))
    name = model.removeprefix("sim:").partition("-")[2]
    itself = client == SDK and quirk.setting.retries
    return Run(model, api, client, judge(quirk.right_for(name), seen, sent, retries=itself))


_numbers = count()


def _question(quirk: Quirk, model: str, api: Api, client: str, places: Places) -> Question:
    setting = quirk.setting
    number = next(_numbers)
    return Question(
        model=model,
        api=api,
        url=places.paced if setting.paced else places.fast,
        secret=f"sk-measured-{number}",
        # Scenarios that fail for the first request of a prompt must do so for each client.
        prompt=f"Tell {client} about {model} in {api}, for the time number {number}.",
        short=setting.short,
        retries=setting.retries,
        inline=setting.inline,
    )


async def _pool(quirk: Quirk, places: Places, client: str) -> list[Run]:
    """R9: after many streams left early, one more must still be answered."""
    runs = []
    for name, cancels in (("left", 0), ("cancelled", 1), ("cancelled twice", 2)):
        stalling = _question(quirk, "sim:r7-stall", "chat", client, places)
        asking = replace(stalling, model="sim:plain", secret=f"{stalling.secret}-after")
        if client == CLIENT:
            async with own.small_client() as patient:
                await own.exhaust(own.begin_ours, patient, stalling, cancels)
                seen = await watched(ours.reader_of(patient), asking)
        else:
            async with own.small_official(asking) as patient:
                await own.exhaust(own.begin_official, patient, stalling, cancels)
                seen = await watched(official.reader_of(patient), asking)
        sent = await sent_to(asking.url, key_hash(asking.secret))
        runs.append(Run(name, "chat", client, judge(quirk.right, seen, sent, retries=False)))
    return runs


async def _leaks(quirk: Quirk, places: Places, client: str) -> list[Run]:
    """R10: an exception of a library below, before the answer and in the middle of it."""
    leak = own.leak_ours if client == CLIENT else own.leak_official
    question = _question(quirk, "sim:plain", "chat", client, places)
    runs = []
    for name, error in own.ERRORS.items():
        for midway in (False, True):
            seen: Seen = await leak(question, error, midway=midway)
            judged = judge(quirk.right, seen, own.said_before(midway=midway), retries=False)
            when = "in the body" if midway else "before the answer"
            runs.append(Run(f"{name} {when}", "chat", client, judged))
    return runs


_OWN = {"R9": _pool, "R10": _leaks}
