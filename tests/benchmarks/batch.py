"""A batch of 10,000 lines, one in a hundred faulty, with its command killed on the way.

Everything is real but the provider: a Valkey, two workers, the simulator at full speed, and
`longstream batch run` as a process of its own, which is killed with SIGKILL after four tenths of
the lines and started again. Counted are the answers of every line, what the provider was asked, and
what the books say beside the provider's bill; measured are lines a second and the memory of the
command and of the store, from a tenth of the lines after its start to
the end.

    python tests/benchmarks/batch.py [--quick] [--json] [--lines N]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.harness.benchmark import Report, Target, options, table, versions
from tests.harness.cluster import ROOT, Cluster
from worker.ledger.books import read

LINES, QUICK_LINES = 10_000, 500
#: One line in so many is faulty.
FAULTY = 100
KILLED_AT = 0.4
#: What the memory of the command may grow by after the first tenth, in MB.
GROWTH_MB = 8.0
_MB = 2**20


def line(number: int) -> bytes:
    """Faults of four kinds in turn, else a short question."""
    messages = [{"role": "user", "content": f"Question {number}."}]
    body = {"model": "sim:plain", "messages": messages, "max_tokens": 4}
    entry: dict[str, Any] = {"custom_id": f"c-{number}", "method": "POST", "body": body}
    entry["url"] = "/v1/chat/completions"
    if number % FAULTY:
        return json.dumps(entry).encode()
    kind = number // FAULTY % 4
    if kind == 0:
        return b'{"custom_id": "cut off", "meth'
    if kind == 1:
        return json.dumps(entry | {"url": "/v1/embeddings"}).encode()
    if kind == 2:
        return json.dumps(entry | {"custom_id": "c-1"}).encode()
    return json.dumps(entry | {"body": {"messages": messages}}).encode()


class Run:
    """The command, and what it and the store hold while it runs."""

    def __init__(self, cluster: Cluster, lines: int) -> None:
        self._cluster = cluster
        self._lines = lines
        self._requests = cluster.state / "requests.jsonl"
        self._requests.write_bytes(b"\n".join(map(line, range(1, lines + 1))))
        self.output = cluster.state / "results.jsonl"
        #: Lines written, MB of the command, MB of the store.
        self.seen: list[tuple[int, float, float]] = []

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tasks.cli", "batch", "run", str(self._requests)]
        return subprocess.Popen(
            [*command, "-o", str(self.output)],
            cwd=self._cluster.state,
            env=self._cluster.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def watch(self, process: subprocess.Popen[bytes], upto: int | None) -> None:
        """Until it ends, or has written so many lines."""
        self.seen.clear()
        while process.poll() is None:
            written = self.output.read_bytes().count(b"\n") if self.output.exists() else 0
            if upto is not None and written >= upto:
                return
            info: Any = self._cluster.client.info("memory")
            store_mb = info["used_memory"] / _MB
            self.seen.append((written, _resident_mb(process.pid), store_mb))
            time.sleep(0.5)


def _resident_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = [row for row in status.splitlines() if row.startswith("VmRSS:")]
    return int(found[0].split()[1]) / 1024 if found else 0.0


def measured(lines: int, folder: Path) -> dict[str, Any]:
    cluster = Cluster(folder)
    try:
        for _ in range(2):
            cluster.worker("--concurrency", "40", "--loglevel", "warning")
        run = Run(cluster, lines)
        began = time.perf_counter()
        first = run.start()
        run.watch(first, int(lines * KILLED_AT))
        first.kill()
        first.wait()
        second = run.start()
        run.watch(second, None)
        taken_s = time.perf_counter() - began
        return {
            "lines": lines,
            "seconds": round(taken_s, 1),
            "lines_per_second": round(lines / taken_s, 1),
            **counted(run.output, lines),
            **growth(run.seen, lines),
            **compared(cluster),
        }
    finally:
        cluster.close()


def counted(output: Path, lines: int) -> dict[str, int]:
    """Every line of the input has one of the output, and every sound one an answer."""
    records = [json.loads(each) for each in output.read_bytes().splitlines()]
    numbers = Counter(int(record["id"].split("_")[3]) for record in records)
    answered = Counter(r["custom_id"] for r in records if r["response"] is not None)
    sound = {f"c-{n}" for n in range(1, lines + 1) if n % FAULTY}
    return {
        "lines_without_a_record": sum(numbers[n] == 0 for n in range(1, lines + 1)),
        "lines_with_two": sum(numbers[n] > 1 for n in range(1, lines + 1)),
        "sound_lines_unanswered": len(sound - answered.keys()),
        "custom_ids_answered_twice": sum(times > 1 for times in answered.values()),
        "errors": sum(record["error"] is not None for record in records),
    }


def growth(seen: list[tuple[int, float, float]], lines: int) -> dict[str, float]:
    """From a tenth of the lines after the second run began to its end."""
    from_here = [each for each in seen if each[1] and each[0] >= lines * (KILLED_AT + 0.1)]
    if not from_here:
        raise RuntimeError("the run was over before it could be looked at: give it more lines")
    ours, store = [each[1] for each in from_here], [each[2] for each in from_here]
    return {
        "command_mb": round(max(ours), 1),
        "command_growth_mb": round(max(ours) - ours[0], 1),
        "store_mb": round(max(store), 1),
        "store_growth_mb": round(store[-1] - store[0], 1),
    }


def compared(cluster: Cluster) -> dict[str, int]:
    """The books beside the provider's bill."""
    today = datetime.now(UTC).date()
    rows = read(cluster.client, today - timedelta(days=1), today)
    bill = cluster.bill()
    return {
        "requests_billed": sum(each["requests"] for each in bill),
        "tokens_billed": sum(e["prompt_tokens"] + e["completion_tokens"] for e in bill),
        "tokens_in_the_books": sum(row.input + row.output for row in rows),
    }


def targets(found: dict[str, Any]) -> list[Target]:
    wrong = ("lines_without_a_record", "lines_with_two", "sound_lines_unanswered")
    sound = found["lines"] - found["lines"] // FAULTY
    more = found["requests_billed"] - sound
    apart = abs(found["tokens_billed"] - found["tokens_in_the_books"])
    return [
        Target("lines lost, doubled or unanswered", 0, sum(found[w] for w in wrong), "", "lower"),
        Target("answered twice", 0, found["custom_ids_answered_twice"], "", "lower"),
        Target("asked twice", 0, more, "requests", "lower"),
        Target("books and bill apart", 0, apart, "tokens", "lower"),
        Target("growth of the command", GROWTH_MB, found["command_growth_mb"], "MB", "lower"),
    ]


def main() -> int:
    parser = options(__doc__ or "")
    parser.add_argument("--lines", type=int, help="how many lines the batch has")
    chosen = parser.parse_args()
    lines = chosen.lines or (QUICK_LINES if chosen.quick else LINES)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(lines, Path(folder))
    result = Report(
        benchmark="batch",
        quick=chosen.quick,
        repetitions=1,
        versions=versions("celery", "redis", "msgspec"),
        targets=targets(found),
        figures={"batch": found},
    )
    if chosen.json:
        print(result.as_json())
    else:
        rows = [[name.replace("_", " "), f"{value:,}"] for name, value in found.items()]
        shown = table(("a batch of short answers", ""), rows)
        print(result.heading(), "", shown, "", result.verdicts(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
