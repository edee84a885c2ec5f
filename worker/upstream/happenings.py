"""What can happen in an upstream stream, as small frozen values.

Every dialect speaks these words and no others. `Text` is what the reader sees; reasoning comes as
`Thinking` and is never part of the text. `Usage` replaces what was said before and never adds to
it. `Finished` is the last happening of a stream that earned its end.
"""

from __future__ import annotations

import msgspec

from worker.outcomes import Outcome
from worker.upstream.limits import Limits


class Text(msgspec.Struct, frozen=True, gc=False):
    """A visible delta."""

    text: str


class Thinking(msgspec.Struct, frozen=True, gc=False):
    """Reasoning, one run of deltas. `tokens` is one per delta when no number is known."""

    text: str
    tokens: int


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """A piece of the model's own words for declining."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A fragment of a call. Fragments of one call share `index`; id and name come once."""

    index: int
    id: str | None
    name: str | None
    arguments: str


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What the provider says the request has used so far, in tokens."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


class Resumable(msgspec.Struct, frozen=True, gc=False):
    """Background responses only: where a new connection can take this response up again."""

    response_id: str
    sequence: int


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The provider ended the answer. COMPLETED, INCOMPLETE, FILTERED or REFUSED."""

    outcome: Outcome
    reason: str | None


Happening = Text | Thinking | Refusal | ToolCall | Usage | Limits | Resumable | Finished
