"""The answer's form: what is read, what is tolerated, and how it is refused."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from tasks.edits.answer import (
    Answer,
    AnswerError,
    AnswerParser,
    FileFinished,
)
from tasks.edits.blocks import block, boundary_for
from tasks.edits.source import SourceFile, source_file
from tests.harness.edits import parse_answer

B = "0123abcd"
A_PY = source_file("a.py", b"x = 1\n")
B_PY = source_file("b.py", b"y = 1")
FILES = [A_PY, B_PY]


def read(*lines: str, files: list[SourceFile] = FILES) -> Answer:
    return parse_answer("\n".join(lines), files, B)


def error_of(*lines: str) -> AnswerError:
    with pytest.raises(AnswerError) as caught:
        read(*lines)
    return caught.value


def wrapped(*content: str, path: str = "a.py") -> list[str]:
    return [f"====={B} file {json.dumps(path)}", *content, f"====={B} end"]


def test_blocks_become_files_and_prose_becomes_notes() -> None:
    answer = read("Here:", *wrapped("x = 2"), "and", *wrapped("y = 2", path="b.py"), "Done.")

    assert answer == Answer({"a.py": "x = 2\n", "b.py": "y = 2"}, "Here:\nand\nDone.")


def test_content_is_kept_as_it_is() -> None:
    content = ["", "  x = '\u2028\x0c\x85'\t", "===== end", "=====deadbeef end", "", ""]

    assert read(*wrapped(*content)).files["a.py"] == "\n".join(content) + "\n"


def test_a_block_without_lines_is_an_empty_file() -> None:
    assert read(*wrapped()).files == {"a.py": ""}


def test_an_event_says_where_a_file_ends_in_the_answer() -> None:
    text = "\n".join(["Hi", *wrapped("x = 2"), "bye"])
    parser = AnswerParser(FILES, B)

    assert parser.feed(text) == [FileFinished("a.py", len(text) - 3)]


def test_a_file_is_ready_before_the_answer_ends() -> None:
    parser = AnswerParser(FILES, B)
    parser.feed("\n".join(wrapped("x = 2")))

    (event,) = parser.feed("\nmore")

    assert event.path == "a.py"
    assert parser.files == {"a.py": "x = 2\n"}


def test_an_end_marker_without_a_newline_is_taken_when_the_answer_is_whole() -> None:
    parser = AnswerParser(FILES, B)
    text = "\n".join(wrapped("x = 2"))
    parser.feed(text)

    assert parser.files == {}
    assert parser.take_rest() == [FileFinished("a.py", len(text))]
    assert parser.take_rest() == []
    assert parser.close().files == {"a.py": "x = 2\n"}


def test_carriage_returns_at_line_ends_are_tolerated() -> None:
    text = "\r\n".join(["note", *wrapped("x = 2", "", "z = 3"), ""])

    assert parse_answer(text, FILES, B) == Answer({"a.py": "x = 2\n\nz = 3\n"}, "note")


@pytest.mark.parametrize("opening", ["```", "```python", "```c++ "])
def test_a_fence_around_the_whole_content_is_tolerated(opening: str) -> None:
    assert read(*wrapped(opening, "x = 2", "```")).files == {"a.py": "x = 2\n"}


@pytest.mark.parametrize(
    "content",
    [
        ["```python", "x = 2"],
        ["x = 2", "```"],
        ["```", "x = 2", "```", "and", "```", "y", "```"],
        ["```"],
        ["# ```", "x", "```"],
    ],
)
def test_a_fence_that_could_be_content_is_kept(content: list[str]) -> None:
    assert read(*wrapped(*content)).files["a.py"] == "\n".join(content) + "\n"


def test_a_fence_is_kept_when_the_file_that_was_sent_had_one() -> None:
    fenced = source_file("a.py", b"```\nold\n```\n")

    assert read(*wrapped("```", "new", "```"), files=[fenced]).files["a.py"] == "```\nnew\n```\n"


def test_a_path_may_be_written_with_any_json_escapes() -> None:
    odd = source_file('näme "q"\n/x.py', b"x = 1\n")
    marker = f"====={B} file " + json.dumps(odd.path).replace("/", "\\/")

    assert read(marker, "x = 2", f"====={B} end", files=[odd]).files == {odd.path: "x = 2\n"}


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        ([], 1, "there is no file block in it"),
        (["I would", "rather not."], 2, "there is no file block in it"),
        (wrapped("x = 2")[:-1], 2, "the block of a.py is not closed"),
        (
            [*wrapped("x")[:-1], *wrapped("y", path="b.py")],
            3,
            "block of a.py is not closed",
        ),
        (wrapped("x", path="A.py"), 1, "A.py is not one of the files that were sent"),
        (wrapped("x", path="../a.py"), 1, "../a.py is not one of the files"),
        (wrapped("x", path="/a.py"), 1, "/a.py is not one of the files"),
        (wrapped("x", path="./a.py"), 1, "./a.py is not one of the files"),
        (wrapped("x", path="n\n\ud800"), 1, '"n\\n\\ud800" is not one of'),
        ([*wrapped("x"), *wrapped("y")], 4, "a.py has a block already"),
        (["", f"====={B} end"], 2, "an end marker closes no block"),
        ([*wrapped("x"), f"====={B} end"], 4, "an end marker closes no block"),
        ([f"====={B} file a.py"], 1, "a marker says neither file, end nor none"),
        ([f'====={B} file "a.py'], 1, "the path in a marker is not a JSON string"),
        ([f'====={B} file "a.py" now'], 1, "the path in a marker is not a JSON string"),
        ([f"====={B} file " + "[" * 9], 1, "a marker says neither file, end nor none"),
        ([f"====={B}"], 1, "a marker says neither file, end nor none"),
        ([wrapped()[0], f"====={B} end of it"], 2, "neither file, end nor none"),
        ([wrapped()[0], f"====={B}00 end"], 2, "neither file, end nor none"),
        (['=====deadbeef file "a.py"', "x"], 1, "a marker has another boundary"),
        (["ok", "=== deadbeef end"], 2, "a marker has another boundary"),
        ([f'  ====={B} file "a.py"', "x"], 1, "does not start its line"),
        ([f"  ====={B} oops"], 1, "does not start its line"),
        (wrapped("x = 1\rx = 2"), 2, "a carriage return ends no line"),
    ],
)
def test_what_breaks_the_form_is_an_error_that_names_the_line(
    lines: list[str], line: int, words: str
) -> None:
    error = error_of(*lines)

    assert str(error).startswith(f"line {line} of the answer: ")
    assert words in str(error)
    assert str(error).isprintable()


def test_an_error_shows_no_text_of_the_answer() -> None:
    for lines in (["hush"], [f"====={B}hush"], wrapped("hu\rsh"), [f'====={B} file "hush']):
        assert re.search("hu.?sh", str(error_of(*lines)), re.DOTALL) is None


def test_after_an_error_only_the_error_comes_back_and_finished_files_stay() -> None:
    parser = AnswerParser(FILES, B)
    text = "\n".join([*wrapped("x = 2"), f"====={B} oops", ""])
    with pytest.raises(AnswerError) as first:
        parser.feed(text)

    with pytest.raises(AnswerError) as again:
        parser.feed("more")
    with pytest.raises(AnswerError) as closing:
        parser.close()

    assert first.value is again.value is closing.value
    assert parser.files == {"a.py": "x = 2\n"}


def test_a_closed_parser_takes_nothing_more() -> None:
    parser = AnswerParser(FILES, B)
    parser.feed("\n".join(wrapped("x")))
    parser.close()

    with pytest.raises(ValueError, match="closed"):
        parser.feed("")


PIECES = st.sampled_from(
    [
        f'====={B} file "a.py"\n',
        f'====={B} file "b.py"\r\n',
        f"====={B} end\n",
        f"====={B} end",
        f"====={B} oops\n",
        "```\n",
        "x = 1\n",
        "x\r\n",
        "\r",
        "\n",
        "=====",
        "é\u2028",
    ]
)


def outcome(chunks: list[str]) -> tuple[object, ...]:
    parser = AnswerParser(FILES, B)
    try:
        for chunk in chunks:
            parser.feed(chunk)
        return parser.close(), dict(parser.files)
    except AnswerError as error:
        return str(error), dict(parser.files)


@given(st.lists(PIECES, max_size=12).map("".join), st.data())
def test_any_chunking_gives_the_same_outcome(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    edges = [0, *cuts, len(text)]
    chunks = [text[a:b] for a, b in pairwise(edges)]

    assert outcome(chunks) == outcome([text]) == outcome(list(text))


@given(st.data())
def test_any_chunking_gives_the_same_events(data: st.DataObject) -> None:
    text = "\n".join(["hi", *wrapped("x = 2", ""), "é", *wrapped("y", path="b.py"), ""])
    cut = data.draw(st.integers(0, len(text)))
    whole, split = AnswerParser(FILES, B), AnswerParser(FILES, B)

    assert split.feed(text[:cut]) + split.feed(text[cut:]) == whole.feed(text)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1)


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_what_was_sent_comes_back_from_its_own_blocks(texts: list[str]) -> None:
    files = [source_file(f"{n}.txt", text.encode()) for n, text in enumerate(texts)]
    boundary = boundary_for(files)

    answer = parse_answer("".join(block(boundary, f.path, f.text) for f in files), files, boundary)

    assert answer.files == {file.path: file.text for file in files}
