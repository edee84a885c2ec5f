"""A real package's source tree, refactored file by file over three keys, with a worker killed.

The package comes from the package index while the test runs. LONGSTREAM_TREE=installed takes the
installed copy of it instead, where there is no index.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.local.simulator.ledger import key_hash
from tests.harness.cluster import ROOT, Cluster
from tests.harness.evidence import explained
from tests.harness.leaks import nothing_left
from tests.harness.refactoring import git
from tests.harness.waiting import wait_until
from worker.log import entries
from worker.log.stored import read_stored
from worker.store.keys import job_keys

PACKAGE = "celery"
MARK = b"Simulated refactor: annotate everything"
#: Background responses are billed once, whoever takes them up, so the bill is exact after a kill.
KEY = """
[accounts.{name}]
streams = 4
[[pools.simulator.keys]]
alias = "{name}"
account = "{name}"
provider = "simulator"
base_url = "{base}"
secret = "sk-{name}"
api = "background"
"""
NAMES = ("one", "two", "three")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The package's files, as a git repository with one commit."""
    root = tmp_path / "tree"
    if os.environ.get("LONGSTREAM_TREE") == "installed":
        (place,) = __import__(PACKAGE).__path__
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(place, root / PACKAGE, ignore=ignore)
    else:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE]
        options = ["--only-binary", ":all:", "--dest", str(tmp_path)]
        done = subprocess.run([*download, *options], capture_output=True, check=False, timeout=300)
        assert done.returncode == 0, f"{done.stderr.decode()}\nor set LONGSTREAM_TREE=installed"
        (wheel,) = tmp_path.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(root)
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "as released")
    return root


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    state = tmp_path / "state"
    state.mkdir()
    # With the usual lease: a shorter one lapses under a worker that lives, on a busy machine.
    running = Cluster(state)
    running.configure("".join(KEY.replace("{name}", name) for name in NAMES))
    running.environ["LONGSTREAM_CONFIG"] = str(state / "longstream.toml")
    yield running
    running.close()


def longstream(cluster: Cluster, tree: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tasks.cli", *arguments],
        cwd=tree,
        env={**cluster.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finished(process: subprocess.Popen[bytes]) -> tuple[bytes, str]:
    out, err = process.communicate(timeout=300)
    shown = "\n".join(line[:16_000] for line in out.decode().splitlines()[-20:])
    assert process.returncode == 0, f"{err.decode()[-4000:]}\n{shown}"
    return out, err.decode()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_package_is_refactored_once_over_three_keys_although_a_worker_is_killed(
    cluster: Cluster, tree: Path, tmp_path: Path
) -> None:
    with explained(cluster):
        doomed, _ = cluster.worker(), cluster.worker()
        patch = tmp_path / "all.patch"
        arguments = [PACKAGE, "-m", "annotate everything", "--each", "--yes", "--patch", str(patch)]
        (run, _) = finished(longstream(cluster, tree, "refactor", *arguments, "--detach"))
        run_id = run.decode().strip()

        jobs = [name for name in _jobs(cluster) if name.startswith(run_id)]
        assert len(jobs) >= 100
        wait_until("a third is done", lambda: _ended(cluster, jobs) > len(jobs) / 3, 300)
        _kill_in_mid_stream(cluster, doomed, jobs)
        objects, _ = finished(longstream(cluster, tree, "refactor", "--resume", run_id, "--json"))
        *_, result = (json.loads(line) for line in objects.splitlines())

        _each_file_ended_once(cluster, jobs, result)
        sent = {file["path"] for file in result["files"]}
        assert len(sent) == len(jobs)
        assert sent == {name for name in _python_files(tree) if (tree / name).stat().st_size}

        git(tree, "apply", "--check", str(patch))
        git(tree, "apply", str(patch))
        for name in sent:
            assert (tree / name).read_bytes().count(MARK) == 1
        git(tree, "checkout", "--quiet", "--", ".")
        finished(longstream(cluster, tree, "refactor", "--resume", run_id, "--apply"))
        assert git(tree, "diff", "--binary").encode() == _diff_of(tree, patch)

        wait_until("everything is booked", lambda: _spent(cluster, tree) == _billed(cluster))
        assert all(sum(_billed(cluster)[name]) > 0 for name in NAMES)
        lost = sum(_attempts(cluster, job) > 1 for job in jobs)
        assert lost > 0, "the worker was killed while it had nothing to do"
        nothing_left(cluster)


def _kill_in_mid_stream(cluster: Cluster, doomed: subprocess.Popen[bytes], jobs: list[str]) -> None:
    """Kill a worker while every request it has made is known by its id. What a provider bills for a
    request whose answer nobody has heard of, no client can know."""

    def killed() -> bool:
        doomed.send_signal(signal.SIGSTOP)
        with cluster.client.pipeline(transaction=False) as pipe:
            for job in jobs:
                pipe.hmget(job_keys(job).record, "state", "worker", "resume")
            name = f"longstream-{doomed.pid}@".encode()
            its = [r for s, w, r in pipe.execute() if s == b"running" and w.startswith(name)]
        if its and all(its):
            cluster.kill(doomed)
            return True
        doomed.send_signal(signal.SIGCONT)
        return False

    wait_until("all its streams can be taken up", killed, 60)


def _jobs(cluster: Cluster) -> list[str]:
    found: Any = cluster.client.zrange("ls:jobs", 0, -1)
    return [name.decode() for name in found]


def _ended(cluster: Cluster, jobs: list[str]) -> int:
    with cluster.client.pipeline(transaction=False) as pipe:
        for job in jobs:
            pipe.hget(job_keys(job).record, "state")
        return sum(state == b"ended" for state in pipe.execute())


def _attempts(cluster: Cluster, job: str) -> int:
    found: Any = cluster.client.hget(job_keys(job).record, "attempt")
    return int(found)


def _each_file_ended_once(cluster: Cluster, jobs: list[str], result: dict[str, Any]) -> None:
    """One seal in every log, and one verdict for every file."""
    for job in jobs:
        stored = read_stored(cluster.client.execute_command, job_keys(job).log)
        seals = [e for each in stored if isinstance(e := entries.decode(each.payload), entries.End)]
        assert [seal.outcome for seal in seals] == ["completed"]
    paths = [file["path"] for file in result["files"]]
    assert len(paths) == len(set(paths))
    assert {file["state"] for file in result["files"]} == {"changed"}


def _python_files(tree: Path) -> list[str]:
    return git(tree, "ls-files", "-z", "--", f"{PACKAGE}/*.py").split("\0")[:-1]


def _diff_of(tree: Path, patch: Path) -> bytes:
    """What git makes of the patch, by another way."""
    git(tree, "checkout", "--quiet", "--", ".")
    git(tree, "apply", str(patch))
    return git(tree, "diff", "--binary").encode()


def _spent(cluster: Cluster, tree: Path) -> dict[str, tuple[int, ...]]:
    out, _ = finished(longstream(cluster, tree, "spend", "--by", "key", "--json"))
    sums = [json.loads(line) for line in out.splitlines()]
    return {s["name"]: (s["input"], s["output"], s["reasoning"]) for s in sums}


def _billed(cluster: Cluster) -> dict[str, tuple[int, ...]]:
    names = {key_hash(f"sk-{name}"): name for name in NAMES}
    kinds = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
    return {names[line["key"]]: tuple(line[kind] for kind in kinds) for line in cluster.bill()}
