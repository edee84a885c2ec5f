"""Whatever is wrong is said in one line that names it and the way out, with a telling exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import Cli
from tests.harness.valkey import Valkey

#: Nothing listens there.
DEAD = "127.0.0.1:1"


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A stack that is only started by what must ask it."""
    work = tmp_path_factory.mktemp("work")
    (work / "app.py").write_text("print('hello')\n")
    (work / "empty.py").write_text("")
    (work / "folder").mkdir()
    (work / "binary.dat").write_bytes(b"\x00\x01\xff" * 100)
    (work / "big.py").write_text("# " + "x" * 400_000)
    (work / "wrong.toml").write_text("[worker]\nlease_s = 'long'\n")
    (work / "broken.toml").write_text("model = \n")
    running = Cli(tmp_path_factory.mktemp("state"), work)
    yield running
    running.close()


@pytest.mark.parametrize(
    ("arguments", "names", "advises"),
    [
        (["refactor", "nope.py", "-m", "x"], "nope.py", "no such file"),
        (["refactor", "folder", "-m", "x"], "folder", "there is no file in it"),
        (["refactor", "binary.dat", "-m", "x"], "binary.dat", "is a binary file"),
        (["refactor", "empty.py", "-m", "x"], "empty.py", "nothing to change"),
        (["refactor", "big.py", "-m", "x"], "big.py", "LONGSTREAM_MAX_FILE_BYTES"),
        (["refactor", "app.py", "-m", " "], "instruction is empty", '-m "..."'),
        (["refactor", "app.py"], "instruction is empty", '-m "..."'),
        (["refactor", "-m", "x"], "no files", "refactor FILE..."),
        (["refactor", "app.py", "--resume", "x"], "--resume", "takes a run alone"),
        (["refactor", "app.py", "-m", b"\xff"], "instruction", "not UTF-8"),
        (["ask", ""], "prompt is empty", "say what to answer"),
        (["ask", b"\xff"], "prompt", "not UTF-8"),
        (["ask"], "PROMPT", "longstream ask --help"),
        (["ask", "x", "--effort", "huge"], "'huge'", "'medium'"),
        (["ask", "x", "--frob"], "--frob", "longstream ask --help"),
        (["tail", "x", "--from", "garbage"], "'garbage'", "looks like 1-7"),
        (["tail", "x", "--from", "1-"], "'1-'", "looks like 1-7"),
        (["jobs", "--count", "0"], "--count", "x>=1"),
        (["taill", "x"], "'taill'", "did you mean 'tail'?"),
        (["frob"], "'frob'", "longstream --help"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], names: str, advises: str) -> None:
    done = cli.run(*arguments)
    assert done.code == 2, done
    assert names in done.complaint
    assert advises in done.complaint


@pytest.mark.parametrize(
    ("device", "complaint"),
    [("/dev/urandom", "stdin is not UTF-8 text"), ("/dev/zero", "stdin has more than")],
)
def test_a_prompt_from_stdin_must_be_text_and_have_an_end(
    cli: Cli, device: str, complaint: str
) -> None:
    with Path(device).open("rb") as endless, cli.start("ask", "-", stdin=endless) as process:
        _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert complaint in err.decode()


@pytest.mark.parametrize(
    ("command", "closed"),
    [("jobs", ">&-"), ("jobs", "2>&-"), ("jobs", "<&- >&- 2>&-"), ("ask -", "<&-")],
)
def test_a_closed_stream_is_as_good_as_an_empty_one(cli: Cli, command: str, closed: str) -> None:
    """As supervisors and `>&-` leave them; an empty prompt is a mistake of usage."""
    line = f'"$0" -m tasks.cli {command} {closed}'
    with subprocess.Popen(
        ["sh", "-c", line, sys.executable],
        env=cli.environ,
        cwd=cli.work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == (2 if command == "ask -" else 0), err
    assert b"Traceback" not in out + err


@pytest.mark.parametrize(
    ("option", "place", "complaint"),
    [
        ("--patch", "no/such.patch", "there is no directory"),
        ("--patch", ".", "is not a regular file"),
        ("--out", "app.py/below", "is not a directory"),
    ],
    ids=str,
)
def test_a_place_that_can_not_be_written_is_refused_before_anything_is_sent(
    cli: Cli, option: str, place: str, complaint: str
) -> None:
    done = cli.run("refactor", "app.py", "-m", "x", option, place)
    assert done.code == 2
    assert f"{option} " in done.complaint
    assert complaint in done.complaint
    assert "name another place" in done.complaint


@pytest.mark.parametrize(
    ("environ", "names", "advises"),
    [
        ({"LONGSTREAM_CONFIG": "wrong.toml"}, "worker.lease_s", "expected a number above 0"),
        ({"LONGSTREAM_CONFIG": "broken.toml"}, "broken.toml, line 1", "not valid TOML"),
        ({"LONGSTREAM_CONFIG": "none.toml"}, "none.toml", "there is no file"),
        ({"LONGSTREAM_REDIS_URL": "bogus"}, "LONGSTREAM_REDIS_URL", "redis://"),
        ({"LONGSTREAM_WORKER__LEASES": "1"}, "LONGSTREAM_WORKER__LEASES", "did you mean"),
        ({"OPENAI_API_KEY": "k" * 20}, "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    ],
)
def test_wrong_settings(cli: Cli, environ: dict[str, str], names: str, advises: str) -> None:
    done = cli.run("ask", "hello", env=environ)
    assert done.code == 2, done
    assert names in done.complaint
    assert advises in done.complaint


@pytest.mark.parametrize(
    "arguments",
    [["ask", "x"], ["refactor", "app.py", "-m", "x"], ["tail", "x"], ["jobs"], ["cancel", "x"]],
)
def test_an_unreachable_redis(cli: Cli, arguments: list[str]) -> None:
    done = cli.run(*arguments, env={"LONGSTREAM_REDIS_URL": f"redis://u:secret@{DEAD}/0"})
    assert done.code == 1
    assert f"cannot reach Redis at redis://{DEAD}/0" in done.complaint
    assert "LONGSTREAM_REDIS_URL" in done.complaint
    assert "secret" not in done.complaint


@pytest.mark.parametrize("place", ["app.py", "app.py/below", "x" * 300])
def test_a_state_directory_that_can_not_be_used(cli: Cli, place: str) -> None:
    done = cli.run("jobs", env={"LONGSTREAM_STATE_DIR": str(cli.work / place)})
    assert done.code == 1
    assert "cannot use the state directory" in done.complaint
    assert "set LONGSTREAM_STATE_DIR" in done.complaint
    assert len(done.complaint) < 400


def test_with_a_redis_no_state_directory_is_needed(cli: Cli) -> None:
    job = cli.submitted("ask", "hello", "--model", "sim:plain")
    nowhere = {"LONGSTREAM_REDIS_URL": cli.stack.url, "LONGSTREAM_STATE_DIR": "/dev/null/none"}
    done = cli.run("tail", job, env=nowhere)
    assert done.code == 0, done


@pytest.mark.parametrize("command", ["tail", "show", "cancel"])
def test_an_unknown_job(cli: Cli, command: str) -> None:
    done = cli.run(command, "nojob")
    assert done.code == 1
    assert done.err.endswith("no job nojob: `longstream jobs` lists those that are known\n")


def test_an_unknown_run(cli: Cli) -> None:
    done = cli.run("refactor", "--resume", "zzz")
    assert done.code == 1
    assert done.err.endswith("no run or job zzz: `longstream jobs` lists those that are known\n")


def test_a_cursor_ahead_of_the_log(cli: Cli) -> None:
    job = cli.submitted("ask", "hello", "--model", "sim:plain")
    assert cli.run("tail", job).code == 0
    done = cli.run("tail", job, "--from", "7-1")
    assert done.code == 1
    assert "cursor 7-1 is ahead of the log" in done.complaint


def test_a_configured_redis_without_a_key(cli: Cli) -> None:
    cli.run("jobs")
    done = cli.run("ask", "x", env={"LONGSTREAM_REDIS_URL": cli.stack.url})
    assert done.code == 2
    assert "no API key is configured: set OPENAI_API_KEY and OPENAI_BASE_URL" in done.complaint


def test_an_unknown_model_of_a_pool(cli: Cli) -> None:
    cli.run("jobs")
    config = cli.work / "pool.toml"
    config.write_text(
        '[pools.main]\nmodels = ["known-*"]\n'
        '[[pools.main.keys]]\nalias = "k"\nprovider = "generic"\n'
        f'base_url = "http://{DEAD}/v1"\nsecret = "{"s" * 20}"\n'
    )
    environ = {"LONGSTREAM_CONFIG": str(config), "LONGSTREAM_REDIS_URL": cli.stack.url}
    done = cli.run("ask", "x", "--model", "other", env=environ)
    assert done.code == 2
    assert "unknown model 'other': the configured pools serve known-*" in done.complaint


def test_a_model_the_provider_does_not_know(cli: Cli) -> None:
    done = cli.run("ask", "x", "--model", "nosuch")
    assert done.code == 1
    assert "The model 'nosuch' does not exist" in done.err
    assert "longstream keys check" in done.err


def test_a_key_the_provider_refuses(cli: Cli) -> None:
    cli.run("keys", "check")
    secret = "invalid-0123456789"
    url = cli.truth_url()
    environ = {"OPENAI_API_KEY": secret, "OPENAI_BASE_URL": url}
    asked = cli.run("ask", "x", env=environ)
    assert asked.code == 1
    assert "answered 401" in asked.err
    assert "key openai was refused: correct it, then `longstream keys check`" in asked.err
    checked = cli.run("keys", "check", env=environ)
    assert checked.code == 1
    assert checked.out.startswith("openai: the provider answered 401")
    assert url in checked.out
    assert secret not in asked.err + checked.out + checked.err


def test_no_worker_is_said_within_two_seconds(cli: Cli, valkey: Valkey) -> None:
    config = cli.work / "lonely.toml"
    config.write_text(
        f'[[pools.lonely.keys]]\nalias = "k"\nprovider = "generic"\nbase_url = "http://{DEAD}/v1"\n'
        f'secret = "{"s" * 20}"\n'
    )
    environ = {"LONGSTREAM_REDIS_URL": valkey.url, "LONGSTREAM_CONFIG": str(config)}
    job = cli.submitted("ask", "x", env=environ)
    with cli.start("tail", job, env=environ) as tail:
        assert tail.stderr is not None
        began = time.monotonic()
        line = tail.stderr.readline().decode()
        took_s = time.monotonic() - began
        tail.send_signal(signal.SIGINT)
        tail.communicate(timeout=20)
    assert "no worker is running: start one with `longstream worker`" in line
    assert took_s < 5, "two seconds, and what a loaded machine adds"


def test_a_damaged_append_only_file(tmp_path: Path, cli: Cli) -> None:
    hurt = Cli(tmp_path / "hurt", cli.work)
    try:
        assert hurt.run("jobs").code == 0
        assert hurt.run("down").code == 0
        (log,) = (tmp_path / "hurt" / "valkey" / "appendonlydir").glob("*.incr.aof")
        with log.open("ab") as file:
            file.write(b"rubbish\n" * 100)
        done = hurt.run("jobs")
        assert done.code == 1
        assert "cannot read its append-only file" in done.err.splitlines()[-1]
        assert f"move {tmp_path / 'hurt' / 'valkey'} away" in done.err
    finally:
        hurt.close()


#: Says so from inside: before `main` has begun, a Ctrl-C is the interpreter's.
BEGUN = """
import tasks.cli
run = tasks.cli._run
def begun():
    print("here", flush=True)
    return run()
tasks.cli._run = begun
tasks.cli.main()
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("arguments", [["ask", "x", "--model", "sim:long"], ["jobs"], ["--help"]])
def test_ctrl_c_at_any_moment_shows_no_traceback(cli: Cli, arguments: list[str]) -> None:
    cli.run("jobs")
    for delay_s in (0.0, 0.02, 0.1, 0.3, 0.7):
        with cli.python("-c", BEGUN, *arguments) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"here\n"
            time.sleep(delay_s)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        assert process.returncode in (0, 130), err
        assert b"Traceback" not in err


SWALLOWED = """
import time
import tasks.cli
class Dying:
    def __del__(self):
        raise KeyboardInterrupt
def run():
    Dying()
    time.sleep(20)
tasks.cli._run = run
tasks.cli.main()
"""


def test_ctrl_c_where_python_can_not_raise_it_is_not_lost(cli: Cli) -> None:
    with cli.python("-c", SWALLOWED) as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")
