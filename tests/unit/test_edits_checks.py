"""Every file of an answer gets a verdict before anything is written."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tasks.edits.answer import Answer
from tasks.edits.checks import Result, Verdict, check
from tasks.edits.source import SourceFile, source_file
from tests.harness.edits import verdicts

A_PY = source_file("a.py", b"x = 1\n")
TEXT = source_file("notes.txt", b"hello\n")


def judge(source: SourceFile, text: str, root: Path) -> Verdict:
    (verdict,) = verdicts(check([source], Answer({source.path: text}), root))
    return verdict


def test_a_changed_file_that_compiles_is_changed(tmp_path: Path) -> None:
    result = check([A_PY, TEXT], Answer({"a.py": "x = 2\n"}, "why"), tmp_path)

    assert verdicts(result) == [Verdict("a.py", "changed")]
    assert result.changes[0].after == b"x = 2\n"


def test_the_same_text_is_unchanged_and_has_no_diff(tmp_path: Path) -> None:
    result = check([A_PY], Answer({"a.py": "x = 1\n"}), tmp_path)

    assert verdicts(result)[0].kind == "unchanged"
    assert result.changes[0].diff == b""


def test_python_that_does_not_compile_is_doubtful_and_shows_the_line(tmp_path: Path) -> None:
    verdict = judge(A_PY, "x = 1\ndef broken(:\n", tmp_path)

    assert verdict.kind == "doubtful"
    assert "does not compile with Python 3" in verdict.reason
    assert "line 2: invalid syntax" in verdict.reason
    assert verdict.excerpt == "def broken(:"
    assert "broken" not in verdict.reason


def test_a_file_that_never_compiled_says_so(tmp_path: Path) -> None:
    old = source_file("a.py", b"print 'x'\n")

    assert judge(old, "print 'y'\n", tmp_path).reason.endswith("(nor did the file before)")
    assert "nor did" not in judge(A_PY, "print 'y'\n", tmp_path).reason


@pytest.mark.parametrize(
    "text", ["return 1\n", "x = '\ud7ff\n", "(" * 300 + ")" * 300, "-" * 100_000 + "1", "x\n  y\n"]
)
def test_no_python_can_make_the_check_fail(tmp_path: Path, text: str) -> None:
    assert judge(A_PY, text, tmp_path).kind == "doubtful"


@pytest.mark.parametrize(
    "text",
    ["x: 'undefined' = 1\n", "s = '\\d'\n", "x = 1 is 1\n", "def f():\n    x: (yield) = 1\n"],
)
def test_warnings_and_our_own_future_imports_do_not_matter(tmp_path: Path, text: str) -> None:
    assert judge(A_PY, text, tmp_path).kind == "changed"


@pytest.mark.parametrize("path", ["a.txt", "Makefile", "a.js"])
def test_only_python_is_compiled(tmp_path: Path, path: str) -> None:
    assert judge(source_file(path, b"x\n"), "def broken(:\n", tmp_path).kind == "changed"


@pytest.mark.parametrize("text", ["", "\n", " \n\n"])
def test_a_file_left_empty_is_doubtful(tmp_path: Path, text: str) -> None:
    assert judge(A_PY, text, tmp_path).reason == "the answer leaves the file empty"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("other.py", "is not one of the files that were sent"),
        ("A.py", "is not one of the files that were sent"),
        ("./a.py", "is not one of the files that were sent"),
        ("../a.py", "does not stay inside the root"),
        ("x/../../a.py", "does not stay inside the root"),
        ("x/../a.py", "does not stay inside the root"),
        ("/a.py", "is an absolute path"),
        ("", "is not a path"),
        ("a\0.py", "is not a path"),
        ("link/a.py", "leads outside the root through a symbolic link"),
    ],
)
def test_a_path_that_was_not_sent_or_leads_elsewhere_is_refused(
    tmp_path: Path, path: str, reason: str
) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path)

    result = check([A_PY], Answer({path: "x = 2\n"}), tmp_path / "root")

    assert result == Result((), (Verdict(path, "refused", reason),))


def test_a_sent_path_is_refused_when_a_link_leads_it_outside_by_now(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/a.py").symlink_to(tmp_path / "a.py")

    assert judge(A_PY, "x = 2\n", tmp_path / "root").kind == "refused"


def test_a_character_the_encoding_cannot_hold_is_refused(tmp_path: Path) -> None:
    latin = source_file("a.py", b"# coding: latin-1\n# \xe9\n")

    verdict = judge(latin, latin.text + "# →\n", tmp_path)

    assert verdict == Verdict("a.py", "refused", "line 3 has U+2192, which iso-8859-1 cannot hold")
    assert judge(A_PY, "x = '\ud800'\n", tmp_path).kind == "refused"


def test_a_changed_encoding_declaration_is_refused_when_it_would_garble_the_file(
    tmp_path: Path,
) -> None:
    latin = source_file("a.py", b"# coding: latin-1\n# \xe9\n")

    assert judge(latin, "# coding: utf-8\n# é\n", tmp_path).kind == "refused"
    assert judge(latin, "# coding: cp1251\n# é\n", tmp_path).kind == "refused"
    assert judge(latin, "# coding: utf-8\n# e\n", tmp_path).kind == "changed"


@pytest.mark.parametrize("text", ["a\0b\n", "a\rb\n"])
def test_text_that_would_turn_the_file_binary_or_mixed_is_refused(
    tmp_path: Path, text: str
) -> None:
    assert judge(TEXT, text, tmp_path).kind == "refused"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\rb\r", b"a\rc\r"),
        (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nc\n"),
        (b"a\nb", b"a\nc"),
    ],
)
def test_the_new_bytes_keep_what_the_model_never_saw(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    source = source_file("a.txt", before)
    text = source.text_of(["a", "c"])

    (change,) = check([source], Answer({"a.txt": text}), tmp_path).changes

    assert (change.before, change.after) == (before, after)


def test_a_result_survives_json(tmp_path: Path) -> None:
    result = check([A_PY], Answer({"a.py": "x = (\n", "b.py": ""}), tmp_path)

    assert msgspec.json.decode(msgspec.json.encode(result), type=Result) == result
