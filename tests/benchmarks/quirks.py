"""What this client and the official SDK do with each quirk of the wire; measured, not assumed.

    python tests/benchmarks/quirks.py [--json] [--quick]

Each quirk is a script of bytes, the text a reader must get from it, and how it must end. A client
is right, wrong but loud (it raised, or hung until its time-out), or silently wrong: it returned as
if all was well, with a text that is not the answer, or after an answer that has no end. Only what
text, end and number of requests can show is compared; time-outs of both clients are short.
`--quick` changes nothing: one run is exact.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import importlib.metadata
import json
import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import structlog

from settings.model import Clocks
from tests.harness.asking import REQUEST, key_for, quick_client
from tests.harness.wire import (
    DONE,
    END,
    HANG,
    PAUSE,
    RESET,
    USAGE,
    Script,
    WireServer,
    chunk,
    delta,
    event,
    head,
    plain,
    stream,
)
from worker.upstream.failures import UpstreamFailure
from worker.upstream.happenings import Refusal, Text

LIMIT_S = 3.0
STOP = delta("stop") + DONE
COMPLETED = event({"type": "response.completed", "sequence_number": 9, "response": {
    "id": "r", "object": "response", "status": "completed", "output": []}})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quirk:
    """`retries`: the client keeps its own retries, and must send `requests` requests."""

    name: str
    says: str
    script: Script
    text: str | None
    ends: bool
    dialect: str = "chat"
    retries: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    text: str
    end: str
    requests: int


def content(raw: bytes) -> bytes:
    """A chunk around `raw`, which stands in the JSON string as it is."""
    return b'data: {"choices":[{"index":0,"delta":{"content":"' + raw + b'"}}]}\n\n'


def said(text: str, number: int = 1) -> bytes:
    return event({"type": "response.output_text.delta", "item_id": "m", "output_index": 0,
                  "content_index": 0, "delta": text, "sequence_number": number})  # fmt: skip


def piecemeal(data: bytes) -> Script:
    return [head(), *[chunk(data[at : at + 1]) for at in range(len(data))], END]


def json_body(document: object) -> Script:
    return [plain("200 OK", json.dumps(document).encode(), content_type="application/json")]


A, B = delta(content="a"), delta(content="b")
REFUSED = json.dumps({"error": {"message": "no", "code": "insufficient_quota"}}).encode()
WHOLE_JSON = {"id": "c", "object": "chat.completion",
              "choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}  # fmt: skip

QUIRKS = [
    Quirk("Q01", "comment keep-alives", stream(b": hi\n\n", A, b": ping\n", B, STOP), "ab", True),
    Quirk("Q02", "comments glued to an event", stream(A, b": x=1\n" + B + STOP), "ab", True),
    Quirk("Q03", "a comment sent as data", stream(b"data: : hb\n\n", A, STOP), "a", True),
    Quirk("Q04", "no space after the colon", stream((A + STOP).replace(b": ", b":", 3)), "a", True),
    Quirk("Q05", "lone CR line ends", stream((A + STOP).replace(b"\n", b"\r")), "a", True),
    Quirk("Q06", "a byte order mark", stream(b"\xef\xbb\xbf" + A, B, STOP), "ab", True),
    Quirk("Q07", "U+2028 in JSON", stream(content("a\u2028b".encode()), STOP), "a\u2028b", True),
    Quirk("Q08", "no last blank line", stream(A, delta("stop", content="b")[:-2]), "ab", True),
    Quirk("Q09", "two documents in one event", stream(A[:-1] + B, STOP), "ab", True),
    Quirk("Q10", "a document over many lines",
          stream(b'data: {"choices": [\ndata: {"delta": {"content": "a"}}]}\n\n', STOP), "a", True),
    Quirk("Q11", "an event with empty data", stream(b"data:\n\n", A, STOP), "a", True),
    Quirk("Q12", "an id, then a keep-alive", stream(b"id: 1\n" + A, b": hb\n\n", STOP), "a", True),
    Quirk("Q13", "characters cut by reads", piecemeal(content("a\U0001f600".encode()) + STOP),
          "a\U0001f600", True),
    Quirk("Q13b", "a character in two deltas",
          stream(content(rb"\ud83d"), content(rb"\ude00"), STOP), "\U0001f600", True),
    Quirk("Q14", "a byte that is not UTF-8", stream(content(b"a\xff"), B, STOP), "a\ufffdb", True),
    Quirk("Q15", "a 2 MiB event", stream(delta(content="x" * 2**21), STOP), "x" * 2**21, True),
    Quirk("Q17", "a page instead of a stream",
          [plain("200 OK", b"<html>no", content_type="text/html")], "", False),
    Quirk("Q18", "one JSON body instead of a stream", json_body(WHOLE_JSON), "ab", True),
    Quirk("Q19", "a JSON error with status 200", json_body({"error": {"message": "x"}}), "", False),
    Quirk("Q20", "a wrong content type", stream(A, STOP, content_type="text/plain"), "a", True),
    Quirk("Q21", "an empty answer", [plain("200 OK", b"")], "", False),
    Quirk("Q22", "blank lines while queued", stream(b"\n" * 50, A, STOP), "a", True),
    Quirk("Q23", "gzip in several members", stream(*map(gzip.compress, (A, B, STOP)),
                                                    content_encoding="gzip"), "ab", True),
    Quirk("Q23b", "gzip cut short", stream(gzip.compress(A + B)[:-8], content_encoding="gzip"),
          None, False),
    Quirk("Q24", "a redirect", [plain("302 Found", b"", location="/v1/other")], "", False),
    Quirk("Q25", "an error object in the stream",
          stream(A, event({"error": {"message": "quota"}}), DONE), "a", False),
    Quirk("Q27", "a flat error event", stream(said("a"), b"event: error\n" + event(
        {"type": "error", "code": "server_error", "message": "x"})), "a", False, "responses"),
    Quirk("Q28", "an error as vLLM says it",
          stream(A, event({"object": "error", "message": "x", "code": 400}), DONE), "a", False),
    Quirk("Q29", "response.failed", stream(said("a"), event(
        {"type": "response.failed", "response": {"status": "failed", "error": {
            "code": "server_error", "message": "x"}}})), "a", False, "responses"),
    Quirk("Q31", "data: null", stream(A, b"data: null\n\n", B, STOP), "ab", True),
    Quirk("Q32", "a chunk without choices", stream(event({"choices": []}), A, STOP), "a", True),
    Quirk("Q33", "a usage chunk", stream(A, delta("stop"), USAGE, DONE), "a", True),
    Quirk("Q35", "a null delta", stream(A, event({"choices": [{"delta": None}]}), STOP), "a", True),
    Quirk("Q37", "an empty finish_reason", stream(delta("", content="a"), B, STOP), "ab", True),
    Quirk("Q38", "text beside the finish", stream(A, delta("stop", content="b"), DONE), "ab", True),
    Quirk("Q39", "no finish_reason, but [DONE]", stream(A, DONE), "a", True),
    Quirk("Q40", "text in a list of parts",
          stream(delta(content=[{"type": "text", "text": "a"}]), STOP), "a", True),
    Quirk("Q43", "a refusal", stream(delta(refusal="no"), STOP), "no", True),
    Quirk("Q46", "no [DONE]", stream(A, delta("stop")), "a", True),
    Quirk("Q47", "a clean end without a terminal", stream(A), "a", False),
    Quirk("Q47b", "a response without its terminal", stream(said("a")), "a", False, "responses"),
    Quirk("Q47c", "an HTTP/1.0 body cut short", [head(transfer_encoding=""), A], "a", False),
    Quirk("Q48", "the body stays open", [head(), chunk(A + STOP), HANG], "a", True),
    Quirk("Q49", "a reset after the finish", [head(), chunk(A + delta("stop")), PAUSE, RESET],
          "a", True),
    Quirk("Q50", "a connection cut in a chunk", [head(), chunk(A), b"ff\r\ndata"], "a", False),
    Quirk("Q51", "text after [DONE]", stream(A, STOP + B), "a", True),
    Quirk("Q52", "no event: lines", stream(said("a"), COMPLETED), "a", True, "responses"),
    Quirk("Q53", "an empty final snapshot", stream(said("a"), said("b", 2), COMPLETED), "ab", True,
          "responses"),
    Quirk("S1", "a document cut over two events",
          stream(A[:30] + b"\n\ndata: " + A[30:], STOP), "a", True),
    Quirk("R3", "an empty account is asked again", [plain("429 Too Many Requests", REFUSED)],
          "", False, retries=True),
    Quirk("R6", "a generation is asked for twice", [plain("502 Bad Gateway", b"")], "", False,
          retries=True),
    Quirk("R7", "a stream of nothing but comments",
          [head(), chunk(A), *[chunk(b": hb\n\n"), PAUSE] * 300], "a", False),
    Quirk("R8", "everything in one read", stream(b"".join([A] * 500) + STOP), "a" * 500, True),
]  # fmt: skip


async def ask_ours(server: WireServer, quirk: Quirk) -> tuple[str, str]:
    text = ""
    clocks = Clocks(bytes_idle_s=1, progress_idle_s=1.5, connect_s=2)
    async with quick_client(clocks) as client:
        provider = "responses" if quirk.dialect == "responses" else "simulator"
        try:
            async for batch in client.stream(REQUEST, key_for(server, provider)):
                text += "".join(h.text for h in batch if isinstance(h, Text | Refusal))
        except UpstreamFailure as failure:
            return text, failure.kind
    return text, "ended"


async def ask_sdk(server: WireServer, quirk: Quirk) -> tuple[str, str]:
    import openai

    options: dict[str, Any] = {} if quirk.retries else {"max_retries": 0}
    text: list[str] = []
    async with openai.AsyncOpenAI(
        api_key="none", base_url=server.base_url, timeout=1.5, **options
    ) as client:
        try:
            await _consume(client, quirk.dialect, text)
        except Exception as error:
            return "".join(text), type(error).__name__
    return "".join(text), "ended"


async def _consume(client: Any, dialect: str, text: list[str]) -> None:
    if dialect == "responses":
        async for found in await client.responses.create(model="m", input="x", stream=True):
            if found.type == "response.output_text.delta":
                text.append(found.delta)
        return
    messages = [{"role": "user", "content": "x"}]
    async for found in await client.chat.completions.create(
        model="m", messages=messages, stream=True
    ):
        for choice in found.choices[:1]:
            text.append(str(choice.delta.content or choice.delta.refusal or ""))


async def observe(
    asker: Callable[[WireServer, Quirk], Awaitable[tuple[str, str]]], quirk: Quirk
) -> Result:
    async with WireServer(quirk.script) as server:
        try:
            async with asyncio.timeout(LIMIT_S + (10 if quirk.retries else 0)):
                text, end = await asker(server, quirk)
        except TimeoutError:
            text, end = "", "hung"
        return Result(text, end, len(server.requests))


def judge(quirk: Quirk, result: Result) -> str:
    told = result.end == "ended"
    text_right = quirk.text is None or result.text == quirk.text
    if text_right and told == quirk.ends and result.end != "hung" and result.requests <= 1:
        return "right"
    return "silently wrong" if told else "wrong but loud"


async def run() -> dict[str, Any]:
    askers = {"longstream": ask_ours, "openai SDK": ask_sdk}
    missing = []
    try:
        importlib.metadata.version("openai")
    except importlib.metadata.PackageNotFoundError:
        missing.append("openai")
        del askers["openai SDK"]
    rows = []
    for quirk in QUIRKS:
        row: dict[str, Any] = {"quirk": quirk.name, "says": quirk.says}
        for name, asker in askers.items():
            result = await observe(asker, quirk)
            end = f"{result.end}, {result.requests} requests" if quirk.retries else result.end
            row[name] = {"verdict": judge(quirk, result), "end": end}
        rows.append(row)
    right = sum(row["longstream"]["verdict"] == "right" for row in rows)
    target = {"name": "quirks answered right", "target": len(rows), "measured": right,
              "unit": "quirks", "better": "higher", "ok": right == len(rows)}  # fmt: skip
    return {"missing": missing, "rows": rows, "targets": [target]}


def show(result: dict[str, Any]) -> None:
    names = [name for name in ("longstream", "openai SDK") if name in result["rows"][0]]
    for row in result["rows"]:
        cells = "".join(f"{row[n]['verdict']:16}{'(' + row[n]['end'] + ')':32}" for n in names)
        print(f"{row['quirk']:6}{row['says']:38}{cells}")
    for name in names:
        print(name, dict(Counter(row[name]["verdict"] for row in result["rows"])))
    for name in result["missing"]:
        print(f"missing: {name} (pip install 'longstream[bench]')")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="accepted, and changes nothing")
    options = parser.parse_args()
    logging.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    result = asyncio.run(run())
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
