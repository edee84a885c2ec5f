"""From the samples of one phase to its figures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from tasks.bench.histogram import Histogram, of_values, total_of
from tasks.bench.plan import HEAVY
from tasks.bench.sample import Sample, Verdict
from worker.log.entries import Tokens


class Clustering(msgspec.Struct, frozen=True, kw_only=True):
    """Of one effort; all but `samples` a sample. `reasoning_tokens`: of a heavy task, median."""

    effort: str
    samples: int
    events: float
    gaps: float
    bursts: float
    reasoning_tokens: float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """`timeouts`, `errors` and `wrong` are what the caller got. `hit` and `recovered` count the
    samples that had more than one attempt, and those of them that ended well all the same."""

    phase: str
    samples: int
    good: int
    exact: int
    wrong: int
    timeouts: int
    errors: int
    details: dict[str, int]
    heavy: int
    heavy_good: int
    hit: int
    recovered: int
    first: Histogram
    first_visible: Histogram
    visible: Histogram
    thinking: Histogram
    lasting: Histogram
    clustering: tuple[Clustering, ...]
    tokens: Tokens
    wasted: Tokens
    seconds: float

    def rate(self, count: int) -> float | None:
        """`count` as a share of the samples; None of nothing."""
        return count / self.samples if self.samples else None


#: An error's words beyond this are of one case and not of a kind.
_DETAIL_CHARS = 100


def figures(phase: str, samples: Sequence[Sample], seconds: float) -> Figures:
    by = Counter(sample.verdict for sample in samples)
    heavy = [sample for sample in samples if sample.kind == HEAVY]
    hit = [sample for sample in samples if sample.attempts > 1]
    timed = [sample for sample in samples if sample.timed]
    return Figures(
        phase=phase,
        samples=len(samples),
        good=sum(sample.good for sample in samples),
        exact=by[Verdict.EXACT],
        wrong=by[Verdict.WRONG],
        timeouts=by[Verdict.TIMEOUT],
        errors=by[Verdict.ERROR],
        details=dict(Counter(s.detail[:_DETAIL_CHARS] for s in samples if s.detail).most_common(8)),
        heavy=len(heavy),
        heavy_good=sum(sample.good for sample in heavy),
        hit=len(hit),
        recovered=sum(sample.good for sample in hit),
        first=of_values(s.first_s for s in timed if s.first_s is not None),
        first_visible=of_values(s.first_visible_s for s in timed if s.first_visible_s is not None),
        visible=total_of(sample.visible for sample in timed),
        thinking=total_of(sample.thinking for sample in timed),
        lasting=of_values(sample.seconds for sample in timed),
        clustering=tuple(_clustering(timed)),
        tokens=sum((sample.tokens for sample in samples if sample.tokens), Tokens()),
        wasted=sum((sample.wasted for sample in samples), Tokens()),
        seconds=seconds,
    )


def removed(clustering: Sequence[Clustering]) -> float | None:
    """The share of the clustering events that `low` removes, against the other efforts."""
    low = [each for each in clustering if each.effort == "low"]
    rest = [each for each in clustering if each.effort != "low"]
    others = sum(each.events * each.samples for each in rest)
    count = sum(each.samples for each in rest)
    if not low or not others:
        return None
    return 1 - low[0].events / (others / count)


def _clustering(samples: Sequence[Sample]) -> Iterable[Clustering]:
    for effort in dict.fromkeys(sample.effort for sample in samples):
        # What failed half-way, or was said twice, has another number of them.
        some = [s for s in samples if s.effort == effort and s.good and s.attempts == 1]
        if not some:
            continue
        thought = [s.tokens.reasoning for s in some if s.kind == HEAVY and s.tokens]
        yield Clustering(
            effort=effort,
            samples=len(some),
            events=sum(sample.clusters for sample in some) / len(some),
            gaps=sum(sample.gaps for sample in some) / len(some),
            bursts=sum(sample.bursts for sample in some) / len(some),
            reasoning_tokens=median(thought) if thought else None,
        )
