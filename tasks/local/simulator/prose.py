"""Readable text that nobody can take for a model's: drawn from word lists by a seed.

`tokens` cuts any text into pieces of about four characters whose concatenation is the text.
"""

from __future__ import annotations

import re

from tasks.local.simulator.seeded import Chance

OPENING = "Simulated answer."

_TOKEN = re.compile(r" ?\S{1,5}|\s{1,8}")

_REMARKS = (
    " No model was asked; a seed chose these words.",
    " These sentences come from a word list, not from a model.",
    " Nothing below was thought by anyone.",
)
_SUBJECTS = (
    "The worker", "A late reader", "The second attempt", "Every cursor", "The waiting line",
    "One slow client", "The sealed log", "A fresh lease", "The provider", "This paragraph",
    "The heartbeat", "A patient operator", "The last delta", "Each account", "The decoder",
)  # fmt: skip
_VERBS = (
    "keeps", "finds", "carries", "waits for", "returns to", "counts", "copies", "outlives",
    "never loses", "hands over", "reads", "checks", "moves past", "remembers", "closes",
)  # fmt: skip
_OBJECTS = (
    "the place where it stopped", "every visible character", "a stream that went quiet",
    "the text of an hour ago", "two bursts of reasoning", "a connection from the night before",
    "the numbers on the bill", "its own half of the work", "what the network dropped",
    "the next free slot", "a file with long lines", "the answer to another question",
)  # fmt: skip
_TAILS = (
    "", "", "", ", and then goes on", " before anyone asks", " without a word",
    ", one piece at a time", " until the end is earned", " while the gap lasts",
    "; nothing is shown twice", ", as the seed decided", " on every run",
)  # fmt: skip
ASIDES = (
    " Größe, naïveté and façade survive the trip.",
    " 日本語の文も途中で切れない。",
    " Съешь ещё этих мягких булок.",
    " العربية تُقرأ من اليمين.",
    " Done, and on time 🙂.",
    " Off it goes 🚀, still simulated.",
    " Two people, one glyph: 👩‍💻.",
    " A clef needs four bytes: 𝄞.",
)
_FENCES = (
    '\n\n```python\ndef simulated() -> str:\n    return "not a model"\n```\n\n',
    "\n\n```sh\n# simulated\nprintf '%s\\n' \"$SEED\"\n```\n\n",
    '\n\n```json\n{"simulated": true, "cost": 0}\n```\n\n',
)

#: What the model "thinks", one token a piece: never part of a visible text.
THOUGHTS = tuple(
    _TOKEN.findall(
        " Simulated reasoning: weigh the first option, drop it, look at the second one again,"
        " check the edge of the range, recall what was asked, and compare both outcomes;"
        " still undecided, so the same steps once more with other numbers."
    )
)


def tokens(text: str) -> tuple[str, ...]:
    """Cut `text` into tokens of about four characters."""
    return tuple(_TOKEN.findall(text))


def essay(chance: Chance, size: int) -> tuple[str, ...]:
    """An answer of `size` tokens, or the few more that its last sentence needs."""
    text = OPENING + chance.pick(_REMARKS)
    found = tokens(text)
    while len(found) < size:
        text += _parts(chance, size - len(found))
        found = tokens(text.rstrip())
    return found


def _parts(chance: Chance, size: int) -> str:
    """About `size` tokens more; the cuts at the seams are not known yet."""
    parts: list[str] = []
    count = 0
    while count < size:
        part = _part(chance)
        if parts and parts[-1].endswith("\n"):
            part = part.lstrip()
        parts.append(part)
        count += len(_TOKEN.findall(part))
    return "".join(parts)


def _part(chance: Chance) -> str:
    draw = chance.fraction()
    if draw < 0.04:
        return chance.pick(_FENCES)
    if draw < 0.14:
        return chance.pick(ASIDES)
    if draw < 0.24:
        return "\n\n" + _sentence(chance)
    return " " + _sentence(chance)


def _sentence(chance: Chance) -> str:
    words = (_SUBJECTS, _VERBS, _OBJECTS)
    return " ".join(chance.pick(bank) for bank in words) + chance.pick(_TAILS) + "."
