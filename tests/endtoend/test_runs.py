"""A refactor of a tree from the command line: what is sent, what is asked, what is left behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import Cli
from tests.harness.refactoring import git
from tests.harness.waiting import wait_until
from worker.store.keys import job_keys

MARK = "# Simulated refactor: tidy up\n"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    running = Cli(tmp_path_factory.mktemp("state"), tmp_path_factory.mktemp("unused"))
    yield running
    running.close()


@pytest.fixture
def cli(stack: Cli, tmp_path: Path) -> Cli:
    """The stack, used from a fresh tree of six files, two of them not to be sent."""
    stack.work = tmp_path
    for name in ("src/a.py", "src/b.py", "src/deep/c.py", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"x = {name!r}\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "debug.log").write_text("x")
    (tmp_path / "src" / "logo.png").write_bytes(b"\x89PNG\0")
    return stack


def run_id(text: str) -> str:
    found = re.search(r"run (\w+):", text)
    assert found, text
    return found[1]


def test_a_directory_is_shown_and_needs_a_yes_where_nobody_can_answer(cli: Cli) -> None:
    done = cli.run("refactor", "src", "-m", "tidy up")
    assert done.code == 2
    assert "src/logo.png is a binary file" in done.err
    assert "add --yes to send 3 files, about" in done.err
    assert "estimated cost:" in done.err


def test_each_file_of_a_directory_is_written_and_what_git_ignores_is_not_sent(cli: Cli) -> None:
    done = cli.run("refactor", ".", "-m", "tidy up", "--yes", "--each", "--apply")
    assert done.code == 0, done
    assert "run" in done.err
    for name in ("src/a.py", "src/b.py", "src/deep/c.py"):
        assert f"{name}: written" in done.err
        assert (cli.work / name).read_text().startswith(MARK)
    assert (cli.work / "debug.log").read_text() == "x"
    assert done.out == ""
    again = cli.run("refactor", "--resume", run_id(done.err))
    assert again.code == 0, again
    assert again.err.count("was written before") == 4
    assert (cli.work / ".gitignore").read_text() == "*.log\n"


def test_a_pattern_in_a_pipe_gives_a_patch_that_git_takes(cli: Cli) -> None:
    done = cli.run("refactor", "src/**/*.py", "-m", "tidy up", "--yes", "--each")
    assert done.code == 0, done
    git(cli.work, "apply", given=done.raw)
    assert (cli.work / "src/deep/c.py").read_text().startswith(MARK)


def test_a_patch_and_a_branch_touch_no_file(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    git(cli.work, "init", "--quiet")
    git(cli.work, "add", "--all")
    git(cli.work, "commit", "--quiet", "-m", "first")
    identity = {f"GIT_{w}_{k}": "x@y.z" for w in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")}
    ran = cli.run("refactor", "src", "-m", "tidy up", "-y", "--branch", "tidy", env=identity)
    assert ran.code == 0, ran
    assert "3 files changed on branch tidy, commit" in ran.err
    patch = cli.run("refactor", "--resume", run_id(ran.err), "--patch", "t.patch")
    assert patch.code == 0, patch
    assert git(cli.work, "diff", "--name-only", "HEAD") == ""
    git(cli.work, "apply", "t.patch")
    assert git(cli.work, "diff", "--stat", "tidy", "--", "src") == ""
    taken = cli.run("refactor", "src", "-m", "tidy up", "-y", "--branch", "tidy", env=identity)
    assert taken.code == 1
    assert "branch tidy exists already: choose another name" in taken.err


def test_only_what_the_check_passes_is_written(cli: Cli) -> None:
    check = "! grep -rq 'Simulated' src/a.py"
    done = cli.run("refactor", "src", "-m", "tidy up", "-y", "--apply", "--check", check)
    assert done.code == 1
    assert "src/a.py: refused, the check failed with exit code 1" in done.err
    assert (cli.work / "src/a.py").read_text() == "x = 'src/a.py'\n"
    assert (cli.work / "src/b.py").read_text().startswith(MARK)


def test_a_check_that_fails_from_the_start_costs_nothing(cli: Cli) -> None:
    done = cli.run("refactor", "src", "-m", "x", "-y", "--check", "echo why; false")
    assert done.code == 1
    assert "--check fails before anything is changed" in done.err
    assert "why" in done.err


def test_a_broken_answer_is_corrected_once_and_the_log_says_so(cli: Cli) -> None:
    arguments = ["refactor", "src", "-m", "tidy up", "-y", "--apply"]
    done = cli.run(*arguments, "--model", "sim:refactor-broken-once")
    assert done.code == 0, done
    assert "goes on with attempt 2" in done.err
    for name in ("a.py", "b.py", "deep/c.py"):
        assert (cli.work / "src" / name).read_text().startswith(MARK)
    job = run_id(done.err)
    reasons = [item.get("reason", "") for item in cli.run("tail", job, "--json").objects()]
    assert any("to be corrected: line" in reason for reason in reasons)


def test_an_answer_that_stays_broken_keeps_what_was_ready_and_says_the_fault(cli: Cli) -> None:
    done = cli.run(
        "refactor", "src", "-m", "tidy up", "-y", "--apply", "--model", "sim:refactor-broken"
    )
    assert done.code == 1
    assert re.search(
        r"deep/c.py: missing, job \w+ failed: line \d+ of the answer: .*closed", done.err
    )
    assert (cli.work / "src/a.py").read_text().startswith(MARK)
    assert (cli.work / "src/deep/c.py").read_text() == "x = 'src/deep/c.py'\n"


def test_an_answer_that_changes_nothing_is_a_success(cli: Cli) -> None:
    done = cli.run("refactor", "src", "-m", "x", "-y", "--model", "sim:refactor-nothing")
    assert (done.code, done.out) == (0, "")
    assert "no file changes" in done.err


def test_objects_tell_the_jobs_the_files_and_the_result(cli: Cli) -> None:
    *said, result = cli.run(
        "refactor", "src", "-m", "x", "-y", "--each", "--json", "--apply"
    ).objects()
    assert {item["type"] for item in said} == {"job", "file"}
    ended = [item for item in said if item.get("outcome")]
    assert [item["outcome"] for item in ended] == ["completed"] * 3
    assert all(item["usage"]["output"] > 0 for item in ended)
    costs = [(item["cost"]["usd"] > 0, item["cost"]["unpriced_tokens"]) for item in ended]
    assert costs == [(True, item["usage"]["input"]) for item in ended], "only output has a price"
    assert sorted(result["written"]) == ["src/a.py", "src/b.py", "src/deep/c.py"]


@pytest.mark.slow
def test_detached_and_delivered_later_from_anywhere(cli: Cli, tmp_path_factory: Any) -> None:
    run = cli.submitted("refactor", "src", "-m", "tidy up", "-y", "--each", "--apply")
    root, cli.work = cli.work, tmp_path_factory.mktemp("elsewhere")
    done = cli.run("refactor", "--resume", run[:8])
    assert done.code == 0, done
    assert (root / "src/a.py").read_text().startswith(MARK)


def test_a_file_that_vanished_or_changed_meanwhile_is_named(cli: Cli) -> None:
    run = cli.submitted("refactor", "src", "-m", "tidy up", "-y", "--each", "--apply")
    (cli.work / "src/a.py").unlink()
    (cli.work / "src/b.py").write_text("mine\n")
    done = cli.run("refactor", "--resume", run)
    assert done.code == 1
    assert "src/a.py: refused, is not there any more" in done.err
    assert "src/b.py: refused, changed since it was sent; it keeps its newer content" in done.err
    assert (cli.work / "src/deep/c.py").read_text().startswith(MARK)


@pytest.mark.slow
def test_a_run_is_cancelled_with_all_its_jobs(cli: Cli) -> None:
    run = cli.submitted("refactor", "src", "-m", "x", "-y", "--each", "--model", "sim:long")
    told = cli.run("cancel", run[:9], "--json")
    assert told.code == 0, told
    assert [item["job"] for item in told.objects()] == [f"{run}-{n}" for n in (1, 2, 3)]
    assert cli.run("cancel", run).out.startswith(f"jobs of run {run}: 3 ")
    again = cli.run("cancel", run, "--json").objects()
    assert {item["state"] for item in again} <= {"ended", "stopping"}


def test_an_id_of_ones_own_is_that_run_and_no_other(cli: Cli) -> None:
    arguments = ("refactor", "src", "-m", "tidy up", "-y", "--each")
    assert cli.submitted(*arguments, "--id", "fix-imports") == "fix-imports"
    assert cli.submitted(*arguments, "--id", "fix") == "fix", "no run that begins like it"
    again = cli.run(*arguments, "--id", "fix", "--json")
    assert again.code == 0, again
    assert "told something else" not in again.err
    taken = cli.run("refactor", "notes.md", "-m", "tidy up", "--id", "fix-2")
    assert "run fix-2 was told something else before" in taken.err
    (cli.work / "other").mkdir()
    (cli.work / "other" / "a.py").write_text("x = 1\n")
    assert cli.submitted("ask", "hi", "--model", "sim:plain", "--id", "new-2") == "new-2"
    refused = cli.run("refactor", "src", "other", "-m", "x", "-y", "--each", "--id", "new")
    assert refused.err.endswith("job new-2 is there already: choose another --id\n")


DIES_IN_SUBMIT = """
import os, sys
from tasks.runs import begin
submit = begin._submit
def first(run, groups, instruction):
    submit(run, groups[:1], instruction)
    os._exit(9)
begin._submit = first
from tasks.cli import main
main()
"""


def test_a_command_that_died_while_it_submitted_is_completed_from_the_disk(cli: Cli) -> None:
    arguments = ["refactor", "src", "-m", "tidy up", "-y", "--each", "--apply"]
    with cli.python("-c", DIES_IN_SUBMIT, *arguments) as process:
        process.communicate(timeout=60)
    assert process.returncode == 9
    with cli.store() as client:
        (found,) = [key for key in client.keys("ls:{*}:run") if _half_submitted(client, key)]
    (cli.work / "src/b.py").write_text("mine\n")
    done = cli.run("refactor", "--resume", found.decode()[4:].partition("}")[0])
    assert done.code == 1, done
    assert "src/b.py: missing, job" in done.err
    assert "was never sent: src/b.py has changed since" in done.err
    assert (cli.work / "src/a.py").read_text().startswith(MARK)
    assert (cli.work / "src/deep/c.py").read_text().startswith(MARK)


def _half_submitted(client: Any, key: bytes) -> bool:
    """True for the run of which one job alone was submitted."""
    jobs = json.loads(client.get(key))["jobs"]
    return sum(client.exists(job_keys(job[0]).record) for job in jobs) == 1 < len(jobs)


ODD = {
    "sp ace.py": b"a = 1\n",
    "quo\"te's.py": b"a = 1\n",
    "new\nline.py": b"a = 1\n",
    "n\xc3\xa4ive \xe6\x97\xa5.py": b"a = 1\n",
    "crlf.py": b"a = 1\r\nb = 2\r\n",
    "bom.py": b"\xef\xbb\xbfa = 1\n",
    "open end.py": b"a = 1",
    "latin.py": b"# coding: latin-1\n# caf\xe9\n",
    "-dash.py": b"a = 1\n",
}


@pytest.mark.slow
def test_odd_names_and_forms_come_back_as_they_were(cli: Cli) -> None:
    odd = cli.work / "odd"
    odd.mkdir()
    for name, data in ODD.items():
        (odd / name).write_bytes(data)
    diff = cli.run("refactor", "odd", "-m", "tidy up", "-y")
    assert diff.code == 0, diff.err
    done = cli.run("refactor", "--resume", run_id(diff.err), "--apply")
    assert done.code == 0, done.err
    after = {name: (odd / name).read_bytes() for name in ODD}
    for name, data in ODD.items():
        (odd / name).write_bytes(data)
    git(cli.work, "apply", "-", given=diff.raw)
    assert {name: (odd / name).read_bytes() for name in ODD} == after
    mark = MARK.encode()
    assert after["crlf.py"] == mark.replace(b"\n", b"\r\n") + ODD["crlf.py"]
    assert after["bom.py"] == b"\xef\xbb\xbf" + mark + b"a = 1\n"
    assert after["open end.py"] == mark + b"a = 1"
    assert after["latin.py"] == b"# coding: latin-1\n" + mark + b"# caf\xe9\n"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({}, "it: there is no file in it that git does not ignore"),
        (
            {"a.bin": b"\0", "b.bin": b"\0"},
            "nothing to send: it/a.bin is a binary file, and 1 more like it",
        ),
        ({"a.txt": b"caf\xe9"}, "nothing to send: it/a.txt is not utf-8 text"),
        (
            {"huge.txt": b"x" * 400_001},
            "nothing to send: it/huge.txt has 400001 bytes, over the limit",
        ),
    ],
)
def test_a_directory_with_nothing_to_send_is_one_line(
    cli: Cli, made: dict[str, bytes], says: str
) -> None:
    (cli.work / "it").mkdir()
    for name, data in made.items():
        (cli.work / "it" / name).write_bytes(data)
    done = cli.run("refactor", "it", "-m", "x", "--yes")
    assert done.code == 2
    assert says in done.complaint


@pytest.mark.timeout(120)
def test_kill_9_of_the_command_and_a_worker_writes_nothing_twice(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Killed again and again while files are written, and taken up each time."""
    cli = Cli(
        tmp_path_factory.mktemp("state"),
        tmp_path,
        LONGSTREAM_SIMULATOR_SPEED="30",
        LONGSTREAM_WORKER__LEASE_S="2",
        LONGSTREAM_WORKER__RENEW_S="0.5",
    )
    names = [f"m{number}.py" for number in range(8)]
    for name in names:
        (tmp_path / name).write_text("".join(f"x{n} = {n}\n" for n in range(40)))
    try:
        run = cli.submitted("refactor", *names, "-m", "tidy up", "-y", "--apply")
        inodes: dict[str, int] = {}
        for _ in range(3):
            with cli.start("refactor", "--resume", run) as process:
                had = len(inodes)
                wait_until("one more is written", lambda h=had: len(_written(tmp_path)) > h, 60)
                process.send_signal(signal.SIGKILL)
                process.communicate()
            cli.kill_worker() if len(inodes) < 2 else None
            for name in _written(tmp_path):
                assert inodes.setdefault(name, (tmp_path / name).stat().st_ino)
        done = cli.run("refactor", "--resume", run)
    finally:
        cli.close()
    assert done.code == 0, done
    for name in names:
        text = (tmp_path / name).read_text()
        assert text.startswith(MARK)
        assert text.count(MARK) == 1
    assert {name: (tmp_path / name).stat().st_ino for name in inodes} == inodes
    assert not list(tmp_path.glob(".longstream-*"))


def _written(root: Path) -> list[str]:
    return [path.name for path in root.glob("*.py") if path.read_text().startswith(MARK)]


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_person_is_asked_once(cli: Cli, typed: bytes, code: int) -> None:
    ours, theirs = pty.openpty()
    process = cli.start(
        "refactor", "src", "-m", "tidy up", "--apply", stdin=theirs, stderr=theirs, stdout=theirs
    )
    os.close(theirs)
    seen = b""
    asked = False
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:
            break
        if not data:
            break
        seen += data
        if b"send them?" in seen and not asked:
            asked = True
            assert b"src/a.py" in seen
            assert b"3 files, about" in seen
            os.write(ours, typed)
    os.close(ours)
    assert process.wait(30) == code, seen
    assert (cli.work / "src/a.py").read_text().startswith(MARK) == (code == 0)
