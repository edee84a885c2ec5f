"""How fast bytes become visible text: this client beside the official SDK and what people write.

    python tests/benchmarks/client.py [--json] [--quick]

No network: each contender is fed the same chunks, in turn, in one process, and must give the same
text. A burst is 70 KB of reasoning events and then one visible delta; realistic events are about
360 bytes long, terse ones about 51. Contenders that are not installed are named as missing; they
come with the `bench` extra (openai, httpx-sse).
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from worker.upstream.answer import Answer
from worker.upstream.chat import Chat
from worker.upstream.happenings import Text
from worker.upstream.sse import Decoder

BURST_BYTES = 70_000
BURSTS = 4
READ_BYTES = (64, 1400, 16_384, 70_000)

#: One measurement takes about this long.
MEASURE_S = 0.05

#: A contender reads chunks and returns the visible text.
Contender = Callable[[list[bytes]], str]


@dataclass(frozen=True, slots=True)
class Target:
    """One line of the verdict."""

    name: str
    target: float
    measured: float | None
    unit: str
    better: str
    ok: bool | None


def realistic(**delta: str) -> bytes:
    return _event(
        {
            "id": "chatcmpl-0123456789abcdef0123456789abcdef",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": "gpt-5.5-codex-2026-10-01",
            "service_tier": "default",
            "system_fingerprint": "fp_0123456789ab",
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}],
            "usage": None,
            "obfuscation": "abcdefghij0123456789",
        }
    )


def terse(**delta: str) -> bytes:
    return _event({"choices": [{"delta": delta}]})


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def burst(event: Callable[..., bytes]) -> bytes:
    reasoning = event(reasoning_content=" thought")
    return reasoning * (BURST_BYTES // len(reasoning)) + event(content="hello ")


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def ours(chunks: list[bytes]) -> str:
    answer = Answer(Chat())
    parts = [h.text for c in chunks for h in answer.feed(c) if isinstance(h, Text)]
    return "".join(parts)


def our_framing(chunks: list[bytes]) -> int:
    decoder = Decoder()
    return sum(len(decoder.feed(chunk)) for chunk in chunks)


def naive(chunks: list[bytes]) -> str:
    """What is written first: whole lines, a prefix, and `json.loads`."""
    text, rest = "", ""
    for chunk in chunks:
        *lines, rest = (rest + chunk.decode()).split("\n")
        for line in lines:
            if line.startswith("data: "):
                text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    return text


def contenders() -> tuple[dict[str, Contender], Callable[[list[bytes]], int] | None, list[str]]:
    """Every contender at hand, the SDK's framing alone, and what is missing."""
    found: dict[str, Contender] = {"longstream": ours, "naive lines + json": naive}
    missing: list[str] = []
    framing = None
    try:
        found["openai SDK"], found["openai decoder + json"], framing = _openai()
    except ImportError:
        missing.append("openai")
    try:
        found["httpx-sse + json"] = _httpx_sse()
    except ImportError:
        missing.append("httpx-sse")
    return found, framing, missing


def _openai() -> tuple[Contender, Contender, Callable[[list[bytes]], int]]:
    import openai
    from openai._streaming import SSEDecoder
    from openai.types.chat import ChatCompletionChunk

    library = importlib.import_module(_http_library_of(openai.DefaultHttpxClient))
    client = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:1/v1")

    def shipped(chunks: list[bytes]) -> str:
        response = _response(library, chunks)
        stream = openai.Stream(cast_to=ChatCompletionChunk, response=response, client=client)
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    def decoder(chunks: list[bytes]) -> str:
        documents = (json.loads(event.data) for event in SSEDecoder().iter_bytes(iter(chunks)))
        return "".join(d["choices"][0]["delta"].get("content") or "" for d in documents)

    def framing(chunks: list[bytes]) -> int:
        return sum(1 for _ in SSEDecoder().iter_bytes(iter(chunks)))

    return shipped, decoder, framing


def _http_library_of(client: type) -> str:
    """The SDK changed its HTTP library between major versions."""
    modules = [base.__module__.partition(".")[0] for base in client.__mro__]
    return next(module for module in modules if module.startswith("httpx"))


def _httpx_sse() -> Contender:
    import httpx
    from httpx_sse import EventSource

    def read(chunks: list[bytes]) -> str:
        events = EventSource(_response(httpx, chunks)).iter_sse()
        documents = (json.loads(event.data) for event in events)
        return "".join(d["choices"][0]["delta"].get("content") or "" for d in documents)

    return read


def _response(library: Any, chunks: list[bytes]) -> Any:
    class Chunks(library.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            yield from chunks

    return library.Response(
        200,
        headers={"content-type": "text/event-stream"},
        stream=Chunks(),
        request=library.Request("POST", "http://127.0.0.1:1/v1/chat/completions"),
    )


def measure(
    found: dict[str, Callable[[list[bytes]], Any]], chunks: list[bytes], repetitions: int
) -> dict[str, float]:
    """Seconds of CPU each contender needs for `chunks`: medians, measured in turn."""
    calls = {name: _calls(contender, chunks) for name, contender in found.items()}
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(repetitions):
        for name, contender in found.items():
            gc.collect()
            begin = time.process_time()
            for _ in range(calls[name]):
                contender(chunks)
            times[name].append((time.process_time() - begin) / calls[name])
    return {name: statistics.median(taken) for name, taken in times.items()}


def _calls(contender: Callable[[list[bytes]], Any], chunks: list[bytes]) -> int:
    """As many calls as make one measurement long enough to mean something."""
    contender(chunks)
    begin = time.process_time()
    contender(chunks)
    return max(1, int(MEASURE_S / max(time.process_time() - begin, 1e-5)))


def run(repetitions: int) -> dict[str, Any]:
    found, framing, missing = contenders()
    rows: list[dict[str, Any]] = []
    for label, event in (("realistic", realistic), ("terse", terse)):
        data = burst(event) * BURSTS
        events = data.count(b"\n\n")
        for size in READ_BYTES:
            chunks = cut(data, size)
            texts = {name: contender(chunks) for name, contender in found.items()}
            wrong = [name for name, text in texts.items() if text != "hello " * BURSTS]
            seconds = measure(found, chunks, repetitions)
            per_second = {name: events / taken for name, taken in seconds.items()}
            rows.append({"events": label, "read_bytes": size, "per_second": per_second,
                         "wrong": wrong})  # fmt: skip
    delay = measure(found, [burst(realistic)], repetitions)
    framed = None
    if framing is not None:
        both = {"longstream": our_framing, "openai": framing}
        framed = measure(both, cut(burst(realistic) * BURSTS, 70_000), repetitions)
    return {
        "versions": _versions(),
        "repetitions": repetitions,
        "missing": missing,
        "rows": rows,
        "delay_ms": {name: taken * 1000 for name, taken in delay.items()},
        "targets": [asdict(target) for target in verdicts(rows, delay, framed)],
    }


def verdicts(
    rows: list[dict[str, Any]], delay: dict[str, float], framed: dict[str, float] | None
) -> list[Target]:
    burst_row = next(r for r in rows if r["events"] == "realistic" and r["read_bytes"] == 70_000)
    speed, sdk = burst_row["per_second"], "openai SDK"
    faster = speed["longstream"] / speed[sdk] if sdk in speed else None
    framing = framed["openai"] / framed["longstream"] if framed else None
    share = delay["longstream"] / delay[sdk] if sdk in delay else None
    return [
        _target("decode + JSON + pick against the SDK", 50, faster, "higher"),
        _target("framing against the SDK's decoder", 9, framing, "higher"),
        _target("delay behind a burst against the SDK", 1 / 50, share, "lower"),
    ]


def _target(name: str, target: float, measured: float | None, better: str) -> Target:
    ok = None
    if measured is not None:
        ok = measured >= target if better == "higher" else measured <= target
    return Target(name, target, measured, "x", better, ok)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("openai", "httpx-sse", "httpx", "msgspec"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    return versions


def show(result: dict[str, Any]) -> None:
    print(
        "events a second, and how often the SDK's" if not result["missing"] else "events a second"
    )
    for row in result["rows"]:
        print(f"\n{row['events']} events, reads of {row['read_bytes']} bytes")
        speed = row["per_second"]
        sdk = speed.get("openai SDK")
        for name, value in sorted(speed.items(), key=lambda pair: -pair[1]):
            times = f"{value / sdk:8.1f} x" if sdk else ""
            print(
                f"  {name:24}{value:12,.0f}{times}{'  WRONG TEXT' if name in row['wrong'] else ''}"
            )
    print("\nms until a visible delta behind a 70 KB burst in the same read")
    for name, value in sorted(result["delay_ms"].items(), key=lambda pair: pair[1]):
        print(f"  {name:24}{value:12.2f}")
    print()
    for target in result["targets"]:
        measured = "not measured" if target["measured"] is None else f"{target['measured']:.3g} x"
        print(f"{target['name']}: {measured}, target {target['target']:.3g} x, ok: {target['ok']}")
    for name in result["missing"]:
        print(f"missing: {name} (pip install 'longstream[bench]')")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    result = run(3 if options.quick else 7)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
