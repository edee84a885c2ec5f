"""The 63 quirks of providers, proxies and servers, and what is right in each.

R9 and R10 are faults of a client's own libraries; no provider can cause them, so they have no
scenario of the simulator and are built in `own`.
"""

from __future__ import annotations

from tests.benchmarks.quirk_table.right import CALLS, Quirk, Right, Setting, fails

_LIMITS = Setting(retries=True, chat_only=True)
_TIMED = Setting(short=True, paced=True, chat_only=True)


def _wait(low_s: float, high_s: float) -> Right:
    return fails("rate_limited", retry="later", delay_s=(low_s, high_s))


_BACKOFF = fails("rate_limited", retry="later", backoff=True)
_NEVER = fails("no_credit", retry="never")


def _refused(kind: str) -> Right:
    return fails(kind, retry="never")


def _passing(kind: str) -> Right:
    return fails(kind, retry="later")


FRAMING = (
    Quirk("Q01", "Comments before and between events"),
    Quirk("Q02", "Comments inside the block of an event"),
    Quirk("Q03", "A proxy sends comments again as data"),
    Quirk("Q04", "No space after the colon"),
    Quirk("Q05", "CR LF, CR, mixed and split line ends"),
    Quirk("Q06", "A byte order mark first"),
    Quirk("Q07", "Unicode line separators and control characters in JSON"),
    Quirk(
        "Q08",
        "The last event without its blank line",
        but={"tail-then-cut": fails("truncated")},
    ),
    Quirk("Q09", "Two JSON documents in one event"),
    Quirk("Q10", "One document over many data lines"),
    Quirk("Q11", "Blocks of `retry`, `event` or empty `data` alone"),
    Quirk("Q12", "An `id`, then a keep-alive"),
    Quirk("Q13", "Characters cut by reads"),
    Quirk("Q14", "Bytes that are not UTF-8"),
    Quirk("Q15", "An event of 4 MiB in small pieces"),
    Quirk("Q16", "A line of 80 MiB that does not end", fails("protocol")),
)

BODIES = (
    Quirk("Q17", "200 with an HTML page", fails("not_a_stream")),
    Quirk("Q18", "200 with one JSON completion"),
    Quirk(
        "Q19",
        "200 with a JSON error",
        fails("no_credit"),
        {"json-code": fails("rate_limited")},
    ),
    Quirk("Q20", "A stream with a wrong or no type"),
    Quirk("Q21", "200 or 204 with nothing in it", fails("empty")),
    Quirk("Q22", "Blank lines before the first event", setting=Setting(paced=True)),
    Quirk(
        "Q23",
        "Compression nobody asked for",
        but={"gzip-cut": fails("truncated", text="prefix")},
    ),
    Quirk(
        "Q24",
        "Redirects of a POST",
        fails("redirect", names="followed", or_answered=True),
    ),
    Quirk("Q25", "An error object in the stream", fails("provider_error")),
    Quirk("Q26", "A rate limit told by its code alone", fails("rate_limited")),
    Quirk("Q27", "Flat and nested error events", fails("provider_error")),
    Quirk(
        "Q28",
        "Error shapes of local servers",
        fails("provider_error"),
        {"object-error": fails("bad_request")},
    ),
    Quirk(
        "Q29",
        "`response.failed`, connection left open",
        fails("provider_error", within_s=0.9),
        {"failed-rate-limit": fails("rate_limited", within_s=0.9)},
        Setting(short=True),
    ),
    Quirk("Q30", "Overload told inside a 200, and 529", fails("overloaded")),
    Quirk("Q31", "`null`, `[]` and `1` as data"),
)

CHUNKS = (
    Quirk("Q32", "A first chunk without choices"),
    Quirk("Q33", "Usage after the finish reason", Right(usage=True)),
    Quirk("Q34", "Usage on every chunk, null, or in a choice", Right(usage=True)),
    Quirk("Q35", "`delta` null or missing, `id` empty"),
    Quirk("Q36", "Null and empty fields"),
    Quirk("Q37", '`finish_reason: ""` on every chunk'),
    Quirk("Q38", "Text on the finish chunk, a second finish"),
    Quirk("Q39", "`[DONE]` without a finish reason", Right(unsaid=True)),
    Quirk("Q40", "Reasoning by any of its names", Right(thinking=True)),
    Quirk("Q41", "Think tags inside the text", setting=Setting(inline=True)),
    Quirk("Q42", "Tool calls without index or id", Right(calls=CALLS)),
    Quirk("Q43", "A refusal", Right(ends="refused")),
    Quirk("Q44", "The whole budget spent on reasoning", Right(ends="incomplete")),
    Quirk("Q45", "A content filter in mid-text", Right(ends="filtered")),
)

ENDS = (
    Quirk("Q46", "No `[DONE]`"),
    Quirk("Q47", "A clean end without a terminal", fails("truncated")),
    Quirk(
        "Q48",
        "The connection stays open after the end",
        Right(within_s=1.9),
        setting=Setting(short=True),
    ),
    Quirk("Q49", "A broken connection after the end"),
    Quirk("Q50", "A connection cut in mid-body", fails("truncated", "connection_lost")),
    Quirk("Q51", "Data after `[DONE]`", but={"usage-after-done": Right(usage=True)}),
    Quirk("Q52", "Missing, empty or wrong `event:` lines"),
    Quirk("Q53", "`response.completed` with an empty output"),
)

LIMITS = (
    Quirk(
        "R1",
        "429 and `Retry-After` in every form",
        _BACKOFF,
        {
            "seconds": _wait(2.0, 2.0),
            "fraction": _wait(1.5, 1.5),
            "milliseconds": _wait(0.25, 0.25),
            "date": _wait(1.0, 2.0),
            "huge": _wait(3_600.0, 86_400.0),
        },
        _LIMITS,
    ),
    Quirk(
        "R2",
        "429 and reset headers in every form",
        _wait(1.0, 2.0),
        {"durations": _wait(1.5, 1.5)},
        _LIMITS,
    ),
    Quirk("R3", "429 that no waiting helps against, 402", _NEVER, setting=_LIMITS),
    Quirk(
        "R4",
        "Overload, and HTML pages of the edge",
        _passing("overloaded"),
        dict.fromkeys(("502-page", "520-page", "524-page"), _passing("provider_error")),
        _LIMITS,
    ),
    Quirk(
        "R5",
        "Each other status",
        _refused("bad_request"),
        {
            "401": _refused("bad_key"),
            "403": _refused("forbidden"),
            "403-page": _refused("blocked"),
            "404-model": _refused("not_found"),
            "404-deployment": _refused("not_found"),
            "408": _passing("timed_out"),
            "409": _passing("conflict"),
            "413": _refused("too_large"),
            "425": _passing("too_early"),
        },
        _LIMITS,
    ),
    Quirk(
        "R6",
        "A reset that leaves open whether the request was taken",
        fails("connection_lost", retry="later", posts=1),
        setting=_LIMITS,
    ),
    Quirk(
        "R7",
        "Silence, comments only, one byte at a time",
        fails("bytes_idle", text="prefix", within_s=4.0),
        {
            "no-headers": fails("headers", within_s=4.0),
            "slow-loris": fails("progress_idle", text="prefix", within_s=4.0),
            "comments-only": fails("progress_idle", within_s=4.0),
        },
        _TIMED,
    ),
    Quirk("R8", "Everything in one read, or in clumps", setting=Setting(paced=True)),
)

#: Built in `own`: scenarios by name, without a provider's part in them.
OWN = (
    Quirk("R9", "Streams left early use up the connections"),
    Quirk("R10", "Exceptions of libraries below leak out", fails("connection_lost", text="prefix")),
)

QUIRKS = (*FRAMING, *BODIES, *CHUNKS, *ENDS, *LIMITS, *OWN)
