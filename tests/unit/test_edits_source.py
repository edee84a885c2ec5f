"""What can be sent, what is refused, and that the bytes come back."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from tasks.edits.decoding import Undecodable
from tasks.edits.source import SourceError, SourceFile, read_sources, source_file

LIMIT = 10_000


def problems(paths: list[str], root: Path, limit: int = LIMIT) -> tuple[str, ...]:
    with pytest.raises(SourceError) as caught:
        read_sources(paths, root, limit)
    assert all(problem.isprintable() for problem in caught.value.problems)
    return caught.value.problems


def problem(path: str, root: Path) -> str:
    (only,) = problems([path], root)
    return only


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\nb\n", "a\nb\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\rb\r", "a\nb\n"),
        (b"a\nb", "a\nb"),
        (b"\xef\xbb\xbfa\n", "a\n"),
        (b"\xef\xbb\xbfa\r\nb", "a\nb"),
        ("é\u2028\x85\x0c→\n".encode(), "é\u2028\x85\x0c→\n"),
        (b"# -*- coding: latin-1 -*-\n# \xe9\n", "# -*- coding: latin-1 -*-\n# é\n"),
        (b"#!/usr/bin/python\r# vim: set fileencoding=cp1252 :\r# \x80\r", None),
        (b"\n", "\n"),
    ],
)
def test_the_bytes_come_back_from_the_text_that_was_sent(data: bytes, text: str | None) -> None:
    file = source_file("a.py", data)

    assert text is None or file.text == text
    assert file.bytes_of(file.text) == data
    assert "\r" not in file.text


@given(st.binary(max_size=60), st.sampled_from(["a.py", "a.txt"]))
def test_whatever_is_accepted_comes_back_exactly(data: bytes, path: str) -> None:
    try:
        file = source_file(path, data)
    except Undecodable:
        return
    assert file.bytes_of(file.text) == data
    assert file.bytes_of(file.text_of(lines_of(file.text))) == data


def lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def test_a_source_survives_json() -> None:
    file = source_file('odd "näme"\n.py', "x = 'é'\r\n".encode())

    assert msgspec.json.decode(msgspec.json.encode(file), type=SourceFile) == file
    assert msgspec.convert(msgspec.to_builtins(file), SourceFile) == file


@pytest.mark.parametrize("final_newline", [True, False])
def test_new_text_ends_as_the_file_did(final_newline: bool) -> None:
    file = source_file("a.py", b"x = 1\n" if final_newline else b"x = 1")

    assert file.text_of(["y = 2", ""]).endswith("\n") is final_newline
    assert file.text_of(["y = 2"]).endswith("\n") is final_newline


def test_a_byte_order_mark_in_an_answer_is_not_doubled() -> None:
    file = source_file("a.py", b"\xef\xbb\xbfx = 1\n")

    assert file.bytes_of(file.text_of(["\ufeffy = 2"])) == b"\xef\xbb\xbfy = 2\n"


def test_paths_are_relative_to_the_root_however_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("src/a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(name)

    files = read_sources([str(tmp_path / "src/a.py"), "./b.py", "src/../c.py"], tmp_path, LIMIT)

    assert [file.path for file in files] == ["src/a.py", "b.py", "c.py"]
    assert [file.text for file in files] == ["src/a.py", "b.py", "c.py"]


@pytest.mark.parametrize(
    "name", ["with space.py", "quo\"te's.py", "new\nline.py", "naïve/日本.py", "back\\slash.py"]
)
def test_odd_names_are_sent_as_they_are(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x = 1\n")

    (file,) = read_sources([name], tmp_path, LIMIT)

    assert file.path == name


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "empty.py").touch()
    (tmp_path / "nul.py").write_bytes(b"a\0b")
    (tmp_path / "good.py").write_text("x = 1\n")

    found = problems(["missing.py", "dir", "empty.py", "good.py", "nul.py"], tmp_path)

    assert found == (
        "missing.py: no such file",
        "dir: is a directory; give its files, for example with a glob: src/*.py",
        "empty.py: is empty: there is nothing to change",
        "nul.py: is a binary file",
    )


def test_no_files_at_all_is_a_problem(tmp_path: Path) -> None:
    assert problems([], tmp_path) == ("no files given: name at least one",)


def test_the_root_itself_is_a_directory(tmp_path: Path) -> None:
    assert "is a directory" in problem(".", tmp_path)
    assert "is a directory" in problem(str(tmp_path), tmp_path)


def test_a_file_over_the_limit_names_size_limit_and_setting(tmp_path: Path) -> None:
    (tmp_path / "big.py").write_bytes(b"#" * 50_000)

    assert problem("big.py", tmp_path) == (
        "big.py: has 50000 bytes, over the limit of 10000; "
        "leave it out, or raise max_file_bytes (LONGSTREAM_MAX_FILE_BYTES)"
    )


def test_a_file_of_exactly_the_limit_is_sent(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"#" * LIMIT)

    assert read_sources(["a.py"], tmp_path, LIMIT)[0].size == LIMIT


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"ok\ncaf\xe9\n", "is not utf-8 text (byte 0xe9 in line 2); save it as UTF-8"),
        (b"\xff\xfea\0", "is UTF-16 or UTF-32 text; save it as UTF-8"),
        (b"a\nb\r\nc\n", "mixes line endings (2 LF, 1 CRLF); make them one kind first"),
        (b"a\rb\n", "mixes line endings (1 LF, 1 CR); make them one kind first"),
    ],
)
def test_text_that_could_not_be_given_back_is_refused(
    tmp_path: Path, data: bytes, words: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)

    assert problem("a.txt", tmp_path) == f"a.txt: {words}"


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        (b"# coding: klingon\n", "unknown encoding"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "encoding problem"),
        (b"# coding: rot13\n", "cannot be read as rot13"),
        (b"# coding: unicode_escape\nx = '\\ud800'\n", "cannot be read as unicode_escape"),
        (b"# coding: raw_unicode_escape\nx = '\\ud800'\n", "cannot be read as raw_unicode_escape"),
        (b"# coding: utf-16\n#", "utf-16"),
        (b"# \xe9\n", "no encoding that Python accepts"),
    ],
)
def test_a_python_file_with_an_unusable_encoding_is_refused(
    tmp_path: Path, declaration: bytes, words: str
) -> None:
    (tmp_path / "a.py").write_bytes(declaration)

    assert words in problem("a.py", tmp_path)


def test_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret.py").write_text("x = 1\n")
    (tmp_path / "root/link.py").symlink_to(tmp_path / "secret.py")

    assert "outside the root through a symbolic link" in problem("link.py", tmp_path / "root")


@pytest.mark.parametrize("given", ["link.py", "linked/real.py"])
def test_a_link_that_stays_inside_is_the_file_it_leads_to(tmp_path: Path, given: str) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/real.py").write_text("x = 1\n")
    (tmp_path / "link.py").symlink_to("p/real.py")
    (tmp_path / "linked").symlink_to("p")
    (tmp_path / "root").symlink_to(".")

    for root in (tmp_path, tmp_path / "root"):
        assert read_sources([given], root, LIMIT)[0].path == "p/real.py"


@pytest.mark.parametrize("path", ["../other.py", "/etc/hostname", "a/../../other.py"])
def test_a_path_outside_the_root_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "other.py").write_text("x = 1\n")

    assert "is outside" in problem(path, tmp_path / "root")


@pytest.mark.parametrize("second", ["a.py", "./a.py", "link.py", "hard.py"])
def test_the_same_file_twice_is_refused(tmp_path: Path, second: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "hard.py").hardlink_to(tmp_path / "a.py")

    assert problem_of_both("a.py", second, tmp_path).endswith(
        "is the same file as a.py; name it once"
    )


def problem_of_both(first: str, second: str, root: Path) -> str:
    (only,) = problems([first, second], root)
    return only


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")

    assert problem("pipe.py", tmp_path) == "pipe.py: is not a regular file"


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")

    assert "cannot be read" in problem("loop.py", tmp_path)


def test_a_file_nobody_may_read_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)

    assert problem("a.py", tmp_path) == "a.py: cannot be read: permission denied"


@pytest.mark.parametrize("name", ["new\nline.py", "\x1b[31mred.py", "caf\udce9.py", "nul\0.py", ""])
def test_a_problem_is_one_printable_line_whatever_the_name(tmp_path: Path, name: str) -> None:
    assert ":" in problem(name, tmp_path)


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "caf\udce9.py").write_text("x = 1\n")

    assert "has a name that is not UTF-8" in problem("caf\udce9.py", tmp_path)
