"""Answers to a refactor request that are not as they should be, or change nothing."""

from __future__ import annotations

from collections.abc import Callable

from tasks.local.simulator.answer import Answer, limited
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.prose import tokens
from tasks.local.simulator.refactor import blocks, refactored
from tasks.local.simulator.scenarios.scenario import Scenario

#: Python that no version compiles.
NO_PYTHON = "def :\n"


def first_request(ask: Ask) -> str:
    """The user message that holds the files: the first, whatever follows it."""
    return next((message.text for message in ask.messages if message.role == "user"), "")


def answering(change: Callable[[Ask, str], str]) -> Callable[[Ask], Answer]:
    """The right answer, changed."""

    def answer(ask: Ask) -> Answer:
        right = refactored(first_request(ask)) or "Simulated answer. There was no file.\n"
        return limited(ask, Answer(tokens(change(ask, right))))

    return answer


def without_last_end(_ask: Ask, right: str) -> str:
    return right.rstrip("\n").rpartition("\n")[0] + "\n"


def corrected(ask: Ask, right: str) -> str:
    """Broken at first; the last file alone once somebody complains."""
    if not any(message.role == "assistant" for message in ask.messages):
        return without_last_end(ask, right)
    last = blocks(right)[-1]
    start = right.rindex(f"====={last.boundary} file {last.path}\n")
    return f"Simulated answer. The file that was not closed:\n\n{right[start:]}"


def nothing(ask: Ask, _right: str) -> str:
    found = blocks(first_request(ask))
    mark = f"====={found[0].boundary} none\n" if found else ""
    return f"Simulated answer. No file needs a change.\n{mark}"


def uncompilable(_ask: Ask, right: str) -> str:
    """The first Python file does not compile any more."""
    for block in blocks(right):
        if block.path.endswith('.py"'):
            start = f"====={block.boundary} file {block.path}\n"
            return right.replace(start, start + NO_PYTHON, 1)
    return right


SCENARIOS = (
    Scenario(
        name="sim:refactor-broken-once",
        does="A refactor whose last file is not closed; asked again, it sends that file.",
        answer=answering(corrected),
    ),
    Scenario(
        name="sim:refactor-broken",
        does="A refactor whose last file is not closed, however often it is asked.",
        answer=answering(without_last_end),
    ),
    Scenario(
        name="sim:refactor-nothing",
        does="A refactor that finds nothing to change.",
        answer=answering(nothing),
    ),
    Scenario(
        name="sim:refactor-uncompilable",
        does="A refactor after which the first Python file does not compile.",
        answer=answering(uncompilable),
    ),
)
