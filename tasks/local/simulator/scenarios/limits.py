"""R1-R5: refusals before any stream, with every way to say when to come back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tasks.local.simulator import failures
from tasks.local.simulator.ask import Ask
from tasks.local.simulator.dates import http_date, rfc_3339
from tasks.local.simulator.events import Event
from tasks.local.simulator.scenarios.moves import nothing
from tasks.local.simulator.scenarios.scenario import Quirk, Wiring, wired
from tasks.local.simulator.steps import Headers, Script

Telling = Callable[[Ask], Headers]


def limited(tell: Telling) -> Wiring:
    """429 for the first request of a prompt, with the headers that `tell` makes."""

    def wire(ask: Ask, events: Iterable[Event]) -> Script:
        if ask.nth > 1:
            return wired(ask, events)
        return failures.failure(
            429,
            "Rate limit reached.",
            kind="tokens",
            code="rate_limit_exceeded",
            headers=tell(ask),
        )

    return wire


def saying(*headers: tuple[str, str]) -> Telling:
    return lambda _ask: headers


def after(value: str) -> Wiring:
    return limited(saying(("retry-after", value)))


def dated(offset_s: float) -> Wiring:
    return limited(lambda ask: (("retry-after", http_date(ask.now + offset_s)),))


def epoch(ask: Ask) -> Headers:
    return (("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", str(int(ask.now) + 2)))


def anthropic(ask: Ask) -> Headers:
    return (
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", rfc_3339(ask.now + 2)),
        ("anthropic-ratelimit-requests-remaining", "40"),
        ("anthropic-ratelimit-requests-reset", rfc_3339(ask.now + 3_600)),
    )


def always(status: int, message: str, kind: str, code: str | None = None) -> Wiring:
    return lambda _ask, _events: failures.failure(status, message, kind=kind, code=code)


def page(status: int, title: str) -> Wiring:
    """An HTML page, as a proxy sends it."""
    html = f"<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    data = html.encode()
    return lambda _ask, _events: failures.body(data, status=status, content_type="text/html")


def _limit(name: str, does: str, wire: Wiring) -> Quirk:
    return Quirk(name=name, does=f"{does}, for the first request of a prompt.", wire=wire)


def _failure(name: str, does: str, wire: Wiring) -> Quirk:
    return Quirk(name=name, does=does, answer=nothing, wire=wire)


_DURATIONS = saying(
    ("x-ratelimit-remaining-requests", "99"),
    ("x-ratelimit-reset-requests", "23h47m36.648s"),
    ("x-ratelimit-remaining-tokens", "0"),
    ("x-ratelimit-reset-tokens", "1.5s"),
)
_QUOTA = "You exceeded your current quota, please check your plan and billing details."

SCENARIOS = (
    _limit("sim:r1-seconds", "429 with `Retry-After: 2`", after("2")),
    _limit("sim:r1-fraction", "429 with `Retry-After: 1.5`", after("1.5")),
    _limit(
        "sim:r1-milliseconds",
        "429 with `retry-after-ms: 250` beside `Retry-After: 9`",
        limited(saying(("retry-after-ms", "250"), ("retry-after", "9"))),
    ),
    _limit("sim:r1-date", "429 with a date two seconds ahead in `Retry-After`", dated(2)),
    _limit("sim:r1-past-date", "429 with a date of an hour ago in `Retry-After`", dated(-3_600)),
    _limit("sim:r1-zero", "429 with `Retry-After: 0`", after("0")),
    _limit("sim:r1-negative", "429 with `Retry-After: -5`", after("-5")),
    _limit("sim:r1-nan", "429 with `Retry-After: NaN`", after("NaN")),
    _limit("sim:r1-huge", "429 with `Retry-After: 1e12`", after("1e12")),
    _limit("sim:r1-none", "429 without any header", limited(saying())),
    _limit("sim:r2-durations", "429 with durations in `x-ratelimit-reset-*`", limited(_DURATIONS)),
    _limit("sim:r2-epoch", "429 with epoch seconds in `x-ratelimit-reset`", limited(epoch)),
    _limit("sim:r2-rfc3339", "429 with times in `anthropic-ratelimit-*`", limited(anthropic)),
    _failure(
        "sim:r3-insufficient-quota",
        "429 with `insufficient_quota`: waiting does not help.",
        always(429, _QUOTA, "insufficient_quota", "insufficient_quota"),
    ),
    _failure(
        "sim:r3-credit-exhausted",
        "429 with `credit_balance_exhausted`.",
        always(429, "Simulated: no credit.", "billing_error", "credit_balance_exhausted"),
    ),
    _failure(
        "sim:r3-limit-zero",
        "429 whose message has `limit: 0`.",
        always(429, "Quota exceeded for metric: requests, limit: 0", "rate_limit_error"),
    ),
    _failure(
        "sim:r3-402",
        "402.",
        always(402, "Insufficient Balance", "insufficient_balance", "payment_required"),
    ),
    _failure(
        "sim:r4-slow-down",
        "429 with `slow_down`.",
        always(429, "Reduce your request rate.", "slow_down", "slow_down"),
    ),
    _failure(
        "sim:r4-503-overloaded",
        "503 with `server_is_overloaded`.",
        always(503, "The server is overloaded.", "server_error", "server_is_overloaded"),
    ),
    _failure(
        "sim:r4-529", "529 with `overloaded_error`.", always(529, "Overloaded", "overloaded_error")
    ),
    _failure("sim:r4-502-page", "502 with an HTML page.", page(502, "502 Bad Gateway")),
    _failure("sim:r4-520-page", "520 with an HTML page.", page(520, "Unknown error")),
    _failure("sim:r4-524-page", "524 with an HTML page.", page(524, "A timeout occurred")),
    _failure(
        "sim:r5-401",
        "401, whatever the key.",
        always(401, "Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    ),
    _failure(
        "sim:r5-403",
        "403 with a JSON error.",
        always(403, "Country not supported.", "request_forbidden", "unsupported_country"),
    ),
    _failure("sim:r5-403-page", "403 with an HTML page.", page(403, "403 Forbidden")),
    _failure(
        "sim:r5-404-model",
        "404 with `model_not_found`.",
        always(404, "The model does not exist.", "invalid_request_error", "model_not_found"),
    ),
    _failure(
        "sim:r5-404-deployment",
        "404 with `DeploymentNotFound`.",
        always(404, "The deployment does not exist.", "not_found", "DeploymentNotFound"),
    ),
    *(
        _failure(
            f"sim:r5-{status}",
            f"{status}.",
            always(status, f"Simulated failure {status}.", "invalid_request_error"),
        )
        for status in (400, 408, 409, 413, 422, 425)
    ),
)
