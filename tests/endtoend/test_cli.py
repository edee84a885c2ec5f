"""The command line as its users meet it, at a provider without silences."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import Cli

SOURCE = '''"""A small program."""
import time


def greet(name):
    time.sleep(1)
    return f"hello {name}"


print(greet("world"))
'''


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    running = Cli(tmp_path_factory.mktemp("state"), tmp_path_factory.mktemp("work"))
    yield running
    running.close()


@pytest.fixture
def source(cli: Cli) -> Path:
    """A file to change, as it was before any test changed it."""
    path = cli.work / "app.py"
    path.write_text(SOURCE)
    return path


def patched(work: Path, diff: bytes) -> str:
    """The file after `git apply` took the diff."""
    subprocess.run(["git", "apply", "--verbose", "-"], cwd=work, input=diff, check=True)
    return (work / "app.py").read_text()


def test_a_diff_in_a_pipe_is_taken_by_git_apply(cli: Cli, source: Path) -> None:
    done = cli.run("refactor", "app.py", "-m", "use asyncio")
    assert done.code == 0, done
    assert source.read_text() == SOURCE
    changed = patched(cli.work, done.raw)
    assert changed != SOURCE
    assert "simulated" in done.err


def test_apply_and_out_write_what_the_diff_shows(cli: Cli, source: Path, tmp_path: Path) -> None:
    diff = cli.run("refactor", "app.py", "-m", "use asyncio").raw
    out = cli.run("refactor", "app.py", "-m", "use asyncio", "--out", str(tmp_path))
    assert source.read_text() == SOURCE
    applied = cli.run("refactor", "app.py", "-m", "use asyncio", "--apply")
    written = source.read_text()
    assert (out.code, out.out, applied.code, applied.out) == (0, "", 0, "")
    assert "app.py: written" in applied.err
    assert (tmp_path / "app.py").read_text() == written
    source.write_text(SOURCE)
    assert patched(cli.work, diff) == written


def test_a_file_that_changed_meanwhile_is_refused(cli: Cli, source: Path) -> None:
    job = cli.submitted("refactor", "app.py", "-m", "use asyncio")
    source.write_text(SOURCE + "# mine\n")
    done = cli.run("refactor", "--resume", job, "--apply")
    assert done.code == 1
    assert "app.py: refused" in done.err
    assert source.read_text() == SOURCE + "# mine\n"


def test_a_detached_job_is_delivered_later(cli: Cli, source: Path) -> None:
    job = cli.submitted("refactor", "app.py", "-m", "use asyncio")
    shown = cli.run("refactor", "--resume", job)
    assert (shown.code, source.read_text()) == (0, SOURCE)
    assert patched(cli.work, shown.raw) != SOURCE
    source.write_text(SOURCE)
    assert cli.run("refactor", "--resume", job[:8], "--apply").code == 0
    assert source.read_text() != SOURCE


def test_resume_takes_a_refactor_job_alone(cli: Cli) -> None:
    job = cli.submitted("ask", "hello")
    done = cli.run("refactor", "--resume", job)
    assert done.code == 1
    assert done.complaint == f"longstream: job {job} is no refactor job: longstream tail {job}"


def test_json_is_one_object_a_line(cli: Cli, source: Path) -> None:
    *items, end, result = cli.run("refactor", "app.py", "-m", "use asyncio", "--json").objects()
    attempt, *rest = [item for item in items if item["type"] != "status"]
    assert (attempt["type"], attempt["cursor"], attempt["key"]) == ("attempt", "1-0", "simulator")
    text = ""
    for item in rest:
        assert item["type"] in ("text", "thinking", "note"), item
        if item["type"] == "text":
            assert item["offset"] == len(text)
            text += item["text"]
    assert text == cli.truth()["visible"]
    assert (end["type"], end["outcome"], end["attempts"]) == ("end", "completed", 1)
    assert end["length"] == len(text)
    assert end["usage"]["output"] > 0
    assert result["type"] == "result"
    assert [file["path"] for file in result["files"]] == ["app.py"]
    assert result["diff"].startswith("diff --git a/app.py")


def test_an_answer_in_a_pipe_is_exactly_what_the_provider_sent(cli: Cli) -> None:
    done = cli.run("ask", "-", stdin="Why is the sky blue? é 日\n".encode())
    assert done.code == 0
    assert done.out == cli.truth()["visible"]


def test_tail_goes_on_behind_any_cursor(cli: Cli) -> None:
    job = cli.submitted("ask", "Tell me of tides.", "--model", "sim:slow")
    whole = cli.run("tail", job).out
    assert whole == cli.truth()["visible"]
    *items, end = cli.run("tail", job, "--json").objects()
    texts = [item for item in items if item["type"] == "text"]
    for item in (texts[0], texts[len(texts) // 2], texts[-1]):
        had = item["offset"] + len(item["text"])
        assert cli.run("tail", job, "--from", item["cursor"]).out == whole[had:]
    assert cli.run("tail", job, "--from", end["cursor"]).out == ""
    assert cli.run("tail", job, "--raw").out == whole


def test_the_json_of_tail_ends_with_how_the_job_ended(cli: Cli) -> None:
    job = cli.submitted("ask", "hello")
    end = cli.run("tail", job, "--json").objects()[-1]
    assert {"cursor", "type", "outcome", "usage", "attempts", "length", "digest"} <= end.keys()
    assert cli.run("tail", job, "--from", end["cursor"], "--json").objects() == [end]


def test_jobs_and_show_tell_what_became_of_a_job(cli: Cli) -> None:
    job = cli.submitted("ask", "hello there")
    cli.run("tail", job)
    listed = cli.run("jobs", "--count", "3")
    assert listed.out.splitlines()[0].split("\t")[:4] == [job, "ended", "completed", "generate"]
    assert cli.run("jobs", "--json").objects()[0]["id"] == job
    shown = cli.run("show", job[:6])
    assert shown.code == 0
    assert cli.truth()["visible"] in shown.out
    record = json.loads(cli.run("show", job, "--json").out)
    assert record["result"] == cli.truth()["visible"]
    assert "hello there" not in listed.out + shown.out


def test_a_submit_may_say_on_which_terms_and_under_which_id(cli: Cli, source: Path) -> None:
    terms = ("--id", "mine-1", "--on-interrupt", "fail", "--deadline", "2h")
    first = cli.run("ask", "hello", *terms)
    asked = cli.truth()["id"]
    again = cli.run("ask", "something else", *terms)
    assert (first.code, again.code, again.out, cli.truth()["id"]) == (0, 0, first.out, asked)
    told = "job mine-1 was asked something else before"
    assert (told in first.err, told in again.err) == (False, True)
    record = json.loads(cli.run("show", "mine-1", "--json").out)
    assert record["on_interrupt"] == "fail"
    assert 7_190_000 < record["deadline_ms"] - record["created_ms"] <= 7_200_000
    assert cli.submitted("refactor", "app.py", "-m", "x", "--id", "mine-2") == "mine-2"
    refused = cli.run("refactor", "--resume", "mine-2", "--deadline", "5m")
    assert (refused.code, "--resume takes a run alone" in refused.complaint) == (2, True)


@pytest.mark.parametrize("options", [(), ("--json",), ("--detach",)])
def test_an_output_that_takes_no_more_is_one_line(cli: Cli, options: tuple[str, ...]) -> None:
    says = "longstream: the output can not be written: No space left on device"
    code, err = in_full(cli, "ask", "hi", *options)
    usual = ("longstream: simulated", "longstream: starting", "longstream: waiting")
    (line,) = [each for each in err.splitlines() if not each.startswith(usual)]
    assert (code, line.startswith(says)) == (1, True)
    assert in_full(cli, "jobs") == (1, f"{says}\n")


def in_full(cli: Cli, *arguments: str) -> tuple[int, str]:
    """A command whose output goes where there is no room; its exit code and complaints."""
    with Path("/dev/full").open("w") as full, cli.start(*arguments, stdout=full) as running:
        _, err = running.communicate(timeout=60)
    return running.returncode, err.decode()


@pytest.mark.parametrize(
    ("model", "code", "says"),
    [
        ("sim:plain", 0, "completed"),
        ("sim:length", 3, "incomplete"),
        ("sim:filter", 3, "filtered"),
        ("sim:refuse", 1, "refused"),
        ("nosuch", 1, "failed"),
    ],
)
def test_the_exit_code_says_how_the_job_ended(cli: Cli, model: str, code: int, says: str) -> None:
    done = cli.run("ask", "Say something.", "--model", model)
    assert (done.code, says in done.err) == (code, True), done
    assert done.out == cli.truth()["visible"][: len(done.out)]


def test_keys_check_counts_the_models_a_key_sees(cli: Cli) -> None:
    done = cli.run("keys", "check")
    assert done.code == 0
    assert done.out.startswith(f"simulator: authenticated against {cli.truth_url()}, ")
    assert done.out.endswith(" models visible\n")
    (row,) = cli.run("keys", "check", "--json").objects()
    assert (row["ok"], row["key"], "sim:plain" in row["models"]) == (True, "simulator", True)


def test_a_reader_that_closes_the_pipe_ends_the_command_quietly(cli: Cli) -> None:
    with cli.start("ask", "Go on and on.", "--model", "sim:long") as asking:
        assert asking.stdout is not None
        assert asking.stderr is not None
        asking.stdout.readline()
        asking.stdout.close()
        err = asking.stderr.read().decode()
        code = asking.wait(30)
    assert code == 1
    assert "Traceback" not in err
    assert "Broken" not in err


def test_an_answer_to_a_file_is_appended(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_text("one: ")
    with path.open("ab") as out, cli.start("ask", "hello file", stdout=out) as asking:
        asking.communicate(timeout=30)
    assert path.read_text() == "one: " + cli.truth()["visible"]


def test_the_locale_does_not_change_the_answer(cli: Cli) -> None:
    environ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    done = cli.run("ask", "Tell me of glyphs.", "--model", "sim:slow", env=environ)
    assert done.code == 0
    assert done.out == cli.truth()["visible"]
    assert not done.out.isascii()


@pytest.mark.parametrize("command", ["refactor", "ask", "tail", "jobs", "show", "cancel", "up"])
def test_help_has_an_example_of_every_command(cli: Cli, command: str) -> None:
    done = cli.run(command, "--help")
    assert done.code == 0
    assert f"  longstream {command}" in done.out.split("Examples:")[1]
