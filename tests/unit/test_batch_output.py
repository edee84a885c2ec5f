"""The output of a batch is its state: what was written counts, and nothing half."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tasks.batches.lines import Asked, Fault
from tasks.batches.output import Output, Taken, Unwritable, answer, failure, fault
from tasks.edits.leftovers import temporary_file


def asked(line: int, digest: str = "0badcafe", custom_id: str = "a") -> Asked:
    return Asked(line, digest, custom_id, "/v1/chat/completions", {})


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_record_has_the_fields_of_the_batch_api(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path) as output:
        output.write(asked(1), answer("job", {"x": 1}))
        output.write(asked(2), failure(asked(2), "failed", "why"))
        output.write(Fault(3, "", None, "invalid_json", "no"), fault(Fault(3, "", None, "c", "m")))

    first, second, third = written(path)
    assert list(first) == ["id", "custom_id", "response", "error"]
    assert first["response"] == {"status_code": 200, "request_id": "job", "body": {"x": 1}}
    assert (second["response"], second["error"]["line"]) == (None, 2)
    assert (third["custom_id"], third["error"]["code"]) == (None, "c")


def test_a_second_run_knows_what_the_first_has_written(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path) as output:
        job = output.job_id(asked(2))
        output.write(asked(1), answer("job", {}))
        output.write(asked(3), failure(asked(3), "failed", "why"))

    with Output(path) as again:
        assert [again.has(line, "0badcafe") for line in (1, 2, 3, 4)] == [True, False, True, False]
        assert (again.written, again.failed) == (2, 1)
        assert again.job_id(asked(2)) == job


@pytest.mark.parametrize("kept", [1, 5, 40])
def test_a_line_that_was_cut_off_is_removed_and_written_again(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path) as output:
        output.write(asked(1), answer("job", {}))
        whole = path.read_bytes()
        output.write(asked(2), answer("job", {}))
    path.write_bytes(whole + path.read_bytes()[len(whole) :][:kept])

    with Output(path) as again:
        assert path.read_bytes() == whole
        assert not again.has(2, "0badcafe")
        again.write(asked(2), answer("job", {}))
    assert len(written(path)) == 2


def test_a_line_that_says_something_else_by_now_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path) as output:
        output.write(asked(1), answer("job", {}))

    with Output(path) as again, pytest.raises(Taken, match="line 1 of the requests has changed"):
        again.has(1, "deadbeef")


@pytest.mark.parametrize(("lines", "missing"), [([], 2), ([1, 2], 1), ([2, 4, 5], 2)])
def test_an_output_of_lines_that_the_input_does_not_have_is_refused(
    tmp_path: Path, lines: list[int], missing: int
) -> None:
    with Output(tmp_path / "out.jsonl") as output:
        output.write(asked(1), answer("job", {}))
        output.write(asked(3), answer("job", {}))

    with Output(tmp_path / "out.jsonl") as again:
        again.check_against([1, 2, 3, 4])
        with pytest.raises(Taken, match=rf"do not have \({missing} of 2\): name another output"):
            again.check_against(lines)


def test_errors_are_asked_again_under_new_ids_and_answers_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    cost = Decimal("0.25")
    with Output(path) as output:
        first = {line: output.job_id(asked(line)) for line in (1, 2, 3, 4, 5)}
        output.write(asked(1), answer("job", {}))
        output.write(asked(2), failure(asked(2), "failed", "why", cost))
        output.write(asked(3), failure(asked(3), "not_submitted", "why"))
        wrong = Fault(4, "0badcafe", None, "invalid_json", "no")
        output.write(wrong, fault(wrong))
        whole = path.read_bytes().splitlines(keepends=True)

    with Output(path) as usual:
        assert (usual.written, usual.failed, usual.lost_usd) == (4, 3, 0)
    with Output(path, retry=True) as again:
        assert path.read_bytes() == whole[0]
        assert (again.written, again.failed, again.lost_usd) == (1, 0, cost)
        assert not any(again.has(line, "0badcafe") for line in (2, 3, 4))
        assert again.has(1, "0badcafe")
        assert not again.has(4, "deadbeef"), "a line that was mended"
        assert again.job_id(asked(2)) == first[2] + ".1"
        assert {n: again.job_id(asked(n)) for n in (3, 4, 5)} == {n: first[n] for n in (3, 4, 5)}
        again.write(asked(2), failure(asked(2), "expired", "why", cost))
    with Output(path) as later:
        assert later.job_id(asked(2)) == first[2] + ".1", "what is in flight is found again"
    with Output(path, retry=True) as once_more:
        assert once_more.job_id(asked(2)) == first[2] + ".2"
        assert once_more.lost_usd == 2 * cost
        with pytest.raises(Taken, match="another run is writing"):
            Output(path)
    assert {each.name for each in tmp_path.iterdir()} == {"out.jsonl", "out.jsonl.batch"}


@pytest.mark.parametrize("step", ["state", "output"])
def test_a_run_that_dies_while_it_leaves_out_errors_leaves_them_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path) as output:
        output.write(asked(1), answer("job", {}))
        output.write(asked(2), failure(asked(2), "failed", "why"))
    before = path.read_bytes()
    replace = Path.replace

    def die(source: Path, target: Path) -> None:
        if (target.name == "out.jsonl") == (step == "output"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        Output(path, retry=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"out.jsonl", "out.jsonl.batch"}
    with Output(path, retry=True) as again:
        assert (again.written, again.failed) == (1, 0)


def test_a_link_to_an_output_stays_one_and_modes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, path = tmp_path / "real" / "out.jsonl", tmp_path / "out.jsonl"
    path.symlink_to(real)
    with Output(path) as output:
        output.write(asked(2), failure(asked(2), "failed", "why"))
    real.chmod(0o600)
    with Output(path, retry=True) as again:
        again.write(asked(2), answer("job", {}))
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert [record["error"] for record in written(real)] == [None]


def test_what_a_killed_run_left_beside_the_output_is_removed(tmp_path: Path) -> None:
    with temporary_file(tmp_path) as (_, left):
        pass
    left.write_text("half")
    with Output(tmp_path / "out.jsonl"):
        assert not left.exists()


@pytest.mark.parametrize("made", [Path.mkdir, os.mkfifo])
def test_an_output_that_is_no_file_is_refused(tmp_path: Path, made: Callable[[Path], None]) -> None:
    made(tmp_path / "out.jsonl")
    with pytest.raises(Taken, match="is no regular file: name another output"):
        Output(tmp_path / "out.jsonl")


@pytest.mark.parametrize("state", [b"", b"{", b'{"run": 1}', b'{"run": "../x"}', b"\xff"])
def test_a_state_that_is_none_is_told_with_the_way_out(tmp_path: Path, state: bytes) -> None:
    (tmp_path / "out.jsonl.batch").write_bytes(state)
    with pytest.raises(Taken, match=r"out.jsonl.batch can not be read: remove it and .*out.jsonl"):
        Output(tmp_path / "out.jsonl")


def test_a_file_that_is_no_output_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("mine\n")

    with pytest.raises(Taken, match="is no output of this command"):
        Output(path)
    assert path.read_text() == "mine\n"
    assert [each.name for each in tmp_path.iterdir()] == ["out.jsonl"]


def test_the_output_of_another_run_is_not_touched(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for path in (one, two):
        with Output(path) as output:
            output.write(asked(1), answer("job", {}))
    two.write_bytes(one.read_bytes())

    with pytest.raises(Taken, match="holds lines of another run"):
        Output(two)


def test_two_runs_do_not_write_to_one_output(tmp_path: Path) -> None:
    with Output(tmp_path / "out.jsonl"), pytest.raises(Taken, match="another run is writing"):
        Output(tmp_path / "out.jsonl")


def test_a_custom_id_of_any_characters_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    names = ['"\\\n\u2028', "\ud800", "日本", 'error": null}']
    with Output(path) as output:
        for line, name in enumerate(names, 1):
            output.write(asked(line, custom_id=name), failure(asked(line), "failed", "why"))

    assert [json.loads(line)["custom_id"] for line in path.read_bytes().splitlines()] == names
    with Output(path) as again:
        assert again.failed == len(names)


def test_a_full_disk_is_told_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path) as output:
        output.write(asked(1), answer("job", {}))
        whole = path.read_bytes()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, before[1]))
        try:
            with pytest.raises(Unwritable, match="run the command again when that is mended"):
                output.write(asked(2), answer("job", {"x": "y" * 100}))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    with Output(path) as again:
        assert path.read_bytes() == whole
        again.write(asked(2), answer("job", {}))
    assert [record["id"].split("_")[3] for record in written(path)] == ["1", "2"]
