"""What a person sees of a long run, and the clocks of a run that is shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from settings.errors import LongstreamError
from settings.model import Clocks
from tasks.bench.sample import Sample, Verdict
from tasks.bench.stage import Stage, scaled
from tasks.cli import progress
from tasks.cli.progress import Lines


def sample(verdict: Verdict = Verdict.EXACT) -> Sample:
    return Sample(phase="ours", n=0, kind="k", effort="low", verdict=verdict)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_in_a_pipe_a_line_comes_now_and_then_and_at_the_end(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines()
    lines.phase("with faults", 0, 60)
    for n in range(60):
        clock[0] += 0.5
        lines.sample(sample(Verdict.TIMEOUT if n == 3 else Verdict.EXACT), "0.01 USD")

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "longstream: with faults: 60 samples",
        "longstream: with faults: 20 of 60, 1 not whole, 0.01 USD",
        "longstream: with faults: 40 of 60, 1 not whole, 0.01 USD",
        "longstream: with faults: 60 of 60, 1 not whole, 0.01 USD",
    ]


def test_a_run_that_goes_on_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().phase("samples", 17, 40)

    assert capsys.readouterr().err == "longstream: samples: 17 of 40 samples are there\n"


def test_a_run_that_was_kept_out_of_a_stage_leaves_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSTREAM_STATE_DIR", str(tmp_path))
    first, second = Stage("ours", 30, 8), Stage("ours", 30, 8)
    first.hold()

    with pytest.raises(LongstreamError, match="another simulated bench runs"):
        second.open()
    second.close()

    assert first.state.exists()
    first.close()
    assert not first.state.exists()


def test_only_the_clocks_for_silence_are_divided() -> None:
    usual, shorter = Clocks(), scaled(Clocks(), 30)

    divided = {
        name for name in Clocks.__struct_fields__ if getattr(usual, name) != getattr(shorter, name)
    }
    assert divided == {"read_s", "headers_s", "bytes_idle_s", "progress_idle_s"}
    assert shorter.bytes_idle_s == pytest.approx(4)
    assert shorter.read_s == pytest.approx(20)
