from __future__ import annotations

from pathlib import Path

import pytest
from configuration import problems_of

from settings import SettingsError, load


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ("a = 1\nb = ", "longstream.toml, line 2: is not valid TOML: Invalid value"),
        ("model = sk-oops", "longstream.toml, line 1: is not valid TOML: Invalid value"),
        ("\n\n[worker\n", "longstream.toml, line 3: is not valid TOML: Expected ']'"),
        (
            "model = 'x'\nmodel = 'y'",
            "longstream.toml, line 2: is not valid TOML: Cannot overwrite",
        ),
        ('a = """\nb\n', "longstream.toml, line 3: is not valid TOML"),
        (f"a = {'9' * 5000}", "longstream.toml, line 1: is not valid TOML"),
        (f"a = {'[' * 5000}", "longstream.toml: is nested too deeply"),
    ],
)
def test_a_syntax_error_is_reported_with_file_and_line(toml: str, problem: str) -> None:
    (found,) = problems_of(toml)

    assert found.startswith(problem)


def test_a_broken_file_does_not_hide_the_problems_of_variables() -> None:
    problems = problems_of("x = ", {"LONGSTREAM_WORKER__CONCURRENCY": "no", "OPENAI_API_KEY": "k"})

    assert [problem.split(":")[0] for problem in problems] == [
        "longstream.toml, line 1",
        "worker.concurrency",
    ]


def problem_of_file(content: bytes | None, folder: Path) -> str:
    path = folder / "longstream.toml"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load({}, folder)
    (problem,) = caught.value.problems
    return problem


def test_a_file_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    assert problem_of_file(b"model = '\xff'", tmp_path) == "longstream.toml: is not UTF-8 text"


def test_a_folder_instead_of_a_file_is_reported(tmp_path: Path) -> None:
    assert problem_of_file(None, tmp_path) == "longstream.toml: cannot be read: Is a directory"


def test_a_name_that_is_no_path_is_reported() -> None:
    assert problems_of(environ={"LONGSTREAM_CONFIG": "a\0b"}) == (
        "a\\x00b: cannot be read: it is no path",
    )


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    (tmp_path / "longstream.toml").write_bytes(b"\xef\xbb\xbfmodel = 'x'\r\n[worker]\r\n")

    assert load({}, tmp_path).model == "x"
