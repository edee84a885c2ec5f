"""Chooses the model of a job that says `auto`, and says why. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from settings.model import Settings
from settings.routing import AUTO, Route, shipped_routes
from worker.admission.tickets import Estimate
from worker.upstream.request import Request

#: The words of a rule are looked for in so many characters.
_ASKED_CHARS = 300
_NO_LIGHT = (
    "no lighter model is named: set light under [routing] in longstream.toml, or"
    " LONGSTREAM_ROUTING__LIGHT"
)


class Choice(msgspec.Struct, frozen=True):
    """The model chosen; `rule` empty: none matched. `instead_of` is what it would have been."""

    model: str
    rule: str = ""
    instead_of: str = ""
    why: str = ""


def choose(settings: Settings, task: str, request: Request, size: Estimate) -> Choice:
    """The model for a request whose own is empty, `auto`, or named; only `auto` is a question."""
    model = request.model or settings.model
    if model != AUTO:
        return Choice(model, why="it was named")
    strong = settings.routing.strong
    rules = {**settings.routes, **_behind(settings.routes)}
    for name, rule in rules.items():
        if not _matches(rule, task, request, size):
            continue
        light = rule.model or settings.routing.light
        if light is None:
            return Choice(strong, why=f"rule {name} matches, and {_NO_LIGHT}")
        return Choice(light, name, strong, f"rule {name}")
    return Choice(strong, why="no rule matches")


def asked_of(request: Request) -> str:
    """What is asked, as far as it stands before what it is asked about: the first paragraph."""
    texts = [each.content for each in request.messages if each.role == "user"]
    last = next((text for text in reversed(texts) if isinstance(text, str)), "")
    return last.lstrip().partition("\n\n")[0][:_ASKED_CHARS]


def _behind(own: Mapping[str, Route]) -> dict[str, Route]:
    return {name: rule for name, rule in shipped_routes().items() if name not in own}


def _matches(rule: Route, task: str, request: Request, size: Estimate) -> bool:
    kind = task.rpartition(".")[2]
    return (
        (not rule.kinds or kind in rule.kinds or task in rule.kinds)
        and (not rule.efforts or (request.effort or "") in rule.efforts)
        and (rule.max_input_tokens is None or size.prompt <= rule.max_input_tokens)
        and (not rule.words or _says(asked_of(request), rule.words))
    )


def _says(asked: str, words: Sequence[str]) -> bool:
    found = "|".join(map(re.escape, words))
    return re.search(rf"(?<!\w)(?:{found})(?!\w)", asked, re.IGNORECASE) is not None
