"""The verdict on one run: right, wrong but loud, or silently wrong.

Wrong is loud when the caller is told of an error, whatever it says; a run that never ends, or ends
as if all were well, is silent. The two clients are asked for the same text, end, usage and calls.
They differ in what they do about a refused request: ours tells a scheduler when to come back, the
SDK comes back itself, and is judged by the posts that the simulator counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from tasks.local.simulator.prose import THOUGHTS
from tests.benchmarks.quirk_table.right import Right
from tests.benchmarks.quirk_table.seen import Seen, Sent

#: A second post sooner than this after a 429 is a hot loop.
BACKOFF_S = 0.2

#: Clocks of two processes, and one second of a date, are not finer.
SLACK_S = 0.1

_ENDS = {
    "completed": {"completed", "stop", "tool_calls"},
    "incomplete": {"incomplete", "length", "max_output_tokens"},
    "filtered": {"filtered", "content_filter"},
}


class Verdict(IntEnum):
    RIGHT = 0
    LOUD = 1
    SILENT = 2

    @property
    def words(self) -> str:
        return ("right", "wrong but loud", "silently wrong")[self]


@dataclass(frozen=True, slots=True)
class Judged:
    """One run, judged. `why` names what was wrong, in a few words."""

    verdict: Verdict
    why: str


def judge(right: Right, seen: Seen, sent: Sent, *, retries: bool) -> Judged:
    """`retries`: the client may post again by itself, and is judged by what it posted."""
    if seen.hung:
        return Judged(Verdict.SILENT, f"still waiting after {seen.seconds:.0f} s")
    if right.or_answered and not seen.error and not list(_as_answered(Right(), seen, sent)):
        return Judged(Verdict.RIGHT, "")
    if right.ends != "failed":
        wrong = list(_as_answered(right, seen, sent))
    elif retries:
        wrong = list(_as_retried(right, seen, sent))
    else:
        wrong = list(_as_failed(right, seen, sent))
    if right.within_s is not None and seen.seconds > right.within_s:
        wrong.append(f"the end known after {seen.seconds:.1f} s")
    if not wrong:
        return Judged(Verdict.RIGHT, "")
    return Judged(Verdict.LOUD if seen.error else Verdict.SILENT, "; ".join(wrong))


def _as_answered(right: Right, seen: Seen, sent: Sent) -> Iterator[str]:
    if seen.error:
        yield seen.error
    elif right.ends == "refused":
        if not seen.refusal:
            yield "no refusal told"
    elif seen.finish not in _ENDS[right.ends] and not (right.unsaid and seen.finish is None):
        yield f"ends as {seen.finish}" if seen.finish else "the end is not told"
    yield from _wrong_text(right, seen, sent)
    if right.usage and seen.usage != sent.usage:
        yield "usage lost" if seen.usage is None else f"usage {seen.usage}, not {sent.usage}"
    if right.calls and tuple(seen.calls) != right.calls:
        yield f"tool calls {seen.calls}"
    if right.thinking and seen.thinking is not None and not _thought_once(seen, sent):
        yield "reasoning lost or doubled"


def _as_failed(right: Right, seen: Seen, sent: Sent) -> Iterator[str]:
    if not seen.error:
        yield "no error"
    elif not seen.ours:
        yield seen.error
    if seen.kind and seen.kind not in right.kinds:
        yield f"told as {seen.kind}"
    if right.names and seen.error and right.names not in seen.explained:
        yield f"{seen.error}, which does not say why"
    yield from _wrong_text(right, seen, sent)
    if right.posts is not None and sent.posts != right.posts:
        yield f"posted {sent.posts} times"
    if seen.retryable is not None:
        yield from _wrong_advice(right, seen)


def _wrong_advice(right: Right, seen: Seen) -> Iterator[str]:
    if right.retry is not None and seen.retryable != (right.retry == "later"):
        yield f"retryable: {seen.retryable}"
    if right.backoff and seen.delay_s is not None:
        yield f"a delay of {seen.delay_s} s"
    if right.delay_s is not None:
        low_s, high_s = right.delay_s
        if seen.delay_s is None or not low_s - SLACK_S <= seen.delay_s <= high_s + SLACK_S:
            yield f"a delay of {seen.delay_s} s"


def _as_retried(right: Right, seen: Seen, sent: Sent) -> Iterator[str]:
    if seen.error and not seen.ours:
        yield seen.error
    if right.posts is not None and sent.posts != right.posts:
        yield f"posted {sent.posts} times"
    if right.retry == "never" and sent.posts > 1:
        yield f"posted {sent.posts} times"
    if right.retry == "never" and not seen.error:
        yield "no error"
    told_to_wait = right.delay_s is not None or right.backoff
    if right.retry == "later" and sent.posts < 2 and not told_to_wait and right.posts is None:
        yield f"{seen.error}, given up at once"
    least_s = right.delay_s[0] if right.delay_s else BACKOFF_S
    if right.retry == "later" and any(gap < least_s - SLACK_S for gap in sent.gaps_s):
        yield f"again after {min(sent.gaps_s):.1f} s" + (
            f" instead of {least_s:g}" if right.delay_s else ""
        )
    if not seen.error and not sent.posts > 1:
        yield "no error"
    if not seen.error and seen.text != sent.visible:
        yield _text_note(seen.text, sent.visible)


def _wrong_text(right: Right, seen: Seen, sent: Sent) -> Iterator[str]:
    said = seen.text + seen.refusal
    wanted = sent.visible if right.text == "all" else sent.visible_sent
    if right.text == "prefix":
        wanted = sent.visible[: len(said)]
    if said != wanted:
        yield _text_note(said, wanted)


def _text_note(said: str, wanted: str) -> str:
    if wanted.startswith(said):
        return f"{len(said)} of {len(wanted)} characters"
    if said.endswith(wanted):
        return f"{len(said) - len(wanted)} characters that are no text"
    if wanted.endswith(said):
        return f"the first {len(wanted) - len(said)} characters lost"
    return "another text"


def _thought_once(seen: Seen, sent: Sent) -> bool:
    """Reasoning of the simulator is a run of a fixed text, going round."""
    around = "".join(THOUGHTS) * 2
    return bool(seen.thinking) and seen.thinking in around and seen.thinking_tokens == sent.usage[2]
