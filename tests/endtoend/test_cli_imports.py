"""What a command must not load: each of these costs a reader time before the first character."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.harness.cli import Cli

#: Runs a command and, where the process would end, says what it has loaded.
WATCHED = """
import json, os, sys
def end(code):
    loaded = [name for name, module in sys.modules.items() if module]
    for module in [sys.modules[name] for name in loaded if name.startswith(("settings", "worker"))]:
        loaded += [f"dataclass {kept.__qualname__}" for kept in vars(module).values()
                   if isinstance(kept, type) and hasattr(kept, "__dataclass_fields__")]
    print(json.dumps([code, *loaded]), file=sys.stderr)
    sys.exit(code)
os._exit = end
from tasks.cli import main
main()
"""

PACKAGES = ("settings", "worker", "tasks")

#: Loaded by no command that shows help.
FOR_HELP = frozenset(
    {"celery", "structlog", "httpx", "rich", "asyncio", "redis", "pydantic", "msgspec", "ssl"}
)
#: Loaded by no command in a pipe.
FOR_READING = frozenset(
    {
        "celery",
        "kombu",
        "structlog",
        "httpx",
        "rich",
        "urllib.request",
        "opentelemetry.metrics",
        "pathspec",
        "opentelemetry.sdk.metrics",
        "redis.asyncio.client",
        "worker.seeing.redaction",
        "worker.upstream.failures",
    }
)
#: Modules of ours that a command may load, each some half a millisecond: what it needs today and
#: hardly more. Who adds one asks whether the command can do without until it is used.
OURS = {"tail": 68, "ask": 108, "refactor": 121}


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    work = tmp_path_factory.mktemp("work")
    (work / "app.py").write_text("print('hello')\n")
    running = Cli(tmp_path_factory.mktemp("state"), work)
    yield running
    running.close()


def loaded(cli: Cli, *arguments: str) -> set[str]:
    with cli.python("-c", WATCHED, *arguments, stdout=subprocess.DEVNULL) as process:
        _, err = process.communicate(timeout=60)
    code, *modules = json.loads(err.splitlines()[-1])
    assert code == 0, err
    return set(modules)


@pytest.mark.parametrize(
    "command", ["", "refactor", "ask", "tail", "jobs", "worker", "keys", "serve", "token"]
)
def test_help_loads_next_to_nothing(cli: Cli, command: str) -> None:
    modules = loaded(cli, *command.split(), "--help")
    assert not modules & FOR_HELP
    assert not [name for name in modules if name.startswith(("settings", "worker."))]


def test_reading_and_submitting_load_no_task_queue(cli: Cli) -> None:
    job = cli.submitted("ask", "hello")
    # One that waits is asked about, which takes more.
    cli.run("tail", job)
    for arguments in (
        ["tail", job],
        ["jobs"],
        ["show", job],
        ["ask", "hello"],
        ["refactor", "app.py", "-m", "x"],
        ["refactor", "--resume", cli.submitted("refactor", "app.py", "-m", "x")],
    ):
        modules = loaded(cli, *arguments)
        assert not modules & FOR_READING, arguments
        ours = sorted(name for name in modules if name.startswith(PACKAGES))
        assert len(ours) <= OURS.get(arguments[0], len(ours)), "\n".join(ours)


def test_a_reader_compiles_no_dataclass_of_ours(cli: Cli) -> None:
    """Each takes half a millisecond at start, where a struct takes 15 us."""
    job = cli.submitted("ask", "hello")
    assert not [name for name in loaded(cli, "tail", job) if name.startswith("dataclass ")]


def test_a_reader_loads_nothing_of_submitting(cli: Cli) -> None:
    job = cli.submitted("ask", "hello")
    modules = loaded(cli, "tail", job)
    unused = {"tasks.kinds", "tasks.edits.answer", "worker.job.submission", "worker.log.verify"}
    assert not unused & modules, unused & modules
