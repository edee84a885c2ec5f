"""What headers say of limits."""

from __future__ import annotations

import pytest

from worker.upstream.limits import Limit, limits_in

OPENAI = {
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-remaining-requests": "499",
    "x-ratelimit-limit-tokens": "30000",
    "x-ratelimit-remaining-tokens": "29000",
    "x-ratelimit-reset-tokens": "1s",
}
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-input-tokens-remaining": "7",
}


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (OPENAI, (Limit("requests", 500, 499), Limit("tokens", 30000, 29000))),
        (ANTHROPIC, (Limit("requests", 50, 49),)),
        ({"x-ratelimit-limit-requests": "-1", "x-ratelimit-remaining-requests": "-1"}, ()),
        ({"x-ratelimit-remaining-tokens": "soon"}, ()),
        ({"x-ratelimit-remaining-tokens": "0"}, (Limit("tokens", -1, 0),)),
        ({"content-type": "text/plain"}, ()),
    ],
)
def test_limits_are_read_as_far_as_they_are_said(
    headers: dict[str, str], said: tuple[Limit, ...]
) -> None:
    assert limits_in(headers).limits == said
    assert bool(limits_in(headers)) == bool(said)
