"""What a run will take, told before it is sent, is what its jobs will ask for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from settings.model import Settings
from tasks.edits.source import SourceError
from tasks.kinds import refactor_request
from tasks.runs.plan import Plan, plan_run
from worker.admission.estimates import estimate, tokens_of


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    found = [f"f{number}.py" for number in range(10)]
    for number, name in enumerate(found):
        Path(name).write_text(f"x = {number}\n" * 3)
    return found


def prompts(plan: Plan, instruction: str) -> list[int]:
    """What the line is told of each job when it is submitted."""
    return [
        estimate(
            refactor_request([msgspec.to_builtins(file) for file in group], instruction)
        ).prompt
        for group in plan.groups
    ]


@pytest.mark.parametrize("each", [True, False])
def test_the_estimate_is_that_of_the_jobs(names: list[str], each: bool) -> None:
    plan = plan_run(names, "add type hints", Settings(), each=each)

    told = prompts(plan, "add type hints")
    assert plan.tokens.input == sum(told)
    assert len(told) == len(names) or not each


def test_the_answer_is_taken_to_have_every_file_in_its_block(names: list[str]) -> None:
    plan = plan_run(names, "add type hints", Settings(), each=True)

    bare = sum(tokens_of(file.text) for file in plan.files)
    markers = sum(len(f'=====01234567 file "{name}"=====01234567 end') for name in names)
    assert plan.tokens.output >= bare + markers // 4


def test_a_file_named_otherwise_than_its_path_still_has_to_be_sent(names: list[str]) -> None:
    Path("large.py").write_text("x = 1\n" * 60_000)
    Path("link.py").symlink_to("large.py")

    for name in ("./large.py", "link.py"):
        with pytest.raises(SourceError, match=r"large\.py: has about .* tokens"):
            plan_run([name, *names], "add type hints", Settings(model="gpt-4.1"))
