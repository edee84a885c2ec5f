from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, strategies as st

from tasks.splice import Piece, Splice


@dataclass(frozen=True)
class CutAt:
    """The share of the text so far that stays valid."""

    share: float


TEXTS = st.text("ab", min_size=1, max_size=6)
HAPPENINGS = st.lists(TEXTS | st.builds(CutAt, st.floats(0, 1)), max_size=30)


def play(happenings: list[str | CutAt], missing: int = 0) -> tuple[str, str, Splice]:
    """What an output that follows the pieces shows, the clean text, and the splice. The reader
    lacks the first `missing` characters."""
    splice, output, clean = Splice(), "", ""
    splice.text(missing, "")
    for happening in happenings:
        if isinstance(happening, CutAt):
            kept = int(len(clean) * happening.share)
            clean = clean[:kept]
            splice.cut(missing + kept)
            continue
        piece = splice.text(missing + len(clean), happening)
        clean += happening
        if piece.rewind_to is not None:
            output = output[: piece.rewind_to]
        output += piece.text
        assert output == splice.shown
    end = splice.end()
    return output if end is None else output[: end.rewind_to], clean, splice


@given(HAPPENINGS, st.integers(0, 50))
def test_what_follows_the_pieces_ends_as_the_clean_text(
    happenings: list[str | CutAt], missing: int
) -> None:
    output, clean, splice = play(happenings, missing)
    assert output == clean == splice.shown


@given(st.text("ab", min_size=1), st.data())
def test_the_same_answer_again_is_never_written_twice(text: str, data: st.DataObject) -> None:
    splice, written = Splice(), ""
    at = 0
    while at < len(text):
        size = data.draw(st.integers(1, len(text) - at))
        piece = splice.text(at, text[at : at + size])
        assert piece.rewind_to is None
        written += piece.text
        at += size
        if data.draw(st.booleans()):
            at = data.draw(st.integers(0, at))
            splice.cut(at)
            if data.draw(st.integers(0, 9)) == 0:
                break
    if at == len(text):
        assert splice.end() is None
        assert written == text


def test_a_different_answer_says_from_where_on_the_old_one_is_void() -> None:
    splice = Splice()
    splice.text(0, "one two")
    splice.cut(0)
    assert splice.text(0, "one ").text == ""
    piece = splice.text(4, "three")
    assert (piece.text, piece.rewind_to) == ("three", 4)
    assert splice.shown == "one three"


def test_a_shorter_answer_is_cut_at_the_end() -> None:
    splice = Splice()
    splice.text(0, "one two")
    splice.cut(0)
    splice.text(0, "one")
    assert splice.end() == Piece("", rewind_to=3, offset=3)
    assert splice.shown == "one"


def test_a_cut_before_where_a_late_reader_began_voids_what_it_has() -> None:
    splice = Splice()
    splice.text(100, "tail")
    splice.cut(20)
    # Where the new answer has what stood at 100 before means nothing.
    piece = splice.text(20, "tail")
    assert (piece.text, piece.rewind_to, piece.offset) == ("tail", 0, 20)


def test_a_cut_of_what_a_reader_had_before_it_began_is_told() -> None:
    splice = Splice()
    splice.cut(20)
    assert splice.text(20, "new") == Piece("new", rewind_to=0, offset=20)
    assert splice.text(23, "er") == Piece("er")
