"""For every log and every cursor k: clean[:k] + resume(k) == clean."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tests.harness.logs import LogMaker
from tests.harness.memory import applied, read
from worker.log.cursor import START, Cursor
from worker.log.entries import Mode
from worker.log.verify import verify
from worker.log.view import Attempt, Cut, Item, Superseded, Text

texts = st.lists(st.text(alphabet="aä🌍\n", max_size=6), max_size=5)
later = st.sampled_from([Mode.RESTART, Mode.REATTACH, Mode.CONTINUE, Mode.CLOSE])


@st.composite
def logs(draw: st.DrawFn) -> tuple[LogMaker, dict[Cursor, str]]:
    """Any log there can be, and the text a reader has at each entry if it read all that came."""
    made, at = LogMaker(), {START: ""}

    def note() -> None:
        at[made.log[-1].at] = made.text

    modes = [Mode.START, *draw(st.lists(later, max_size=4))]
    for mode in modes:
        made.claim(mode)
        note()
        for text in draw(texts):
            made.say(text) if draw(st.booleans()) or not text else made.think(len(text))
            note()
        if draw(st.booleans()):
            made.hand_back("drain")
            note()
    if draw(st.booleans()):
        made.seal()
        note()
    return made, at


@given(logs())
def test_every_cursor_resumes_to_the_same_text(log: tuple[LogMaker, dict[Cursor, str]]) -> None:
    made, at = log
    assert applied(read(made.log)) == made.text
    for cursor, had in at.items():
        assert applied(read(made.log, cursor), had) == made.text


@given(logs())
def test_every_item_of_the_clean_view_is_a_cursor_to_go_on_from(
    log: tuple[LogMaker, dict[Cursor, str]],
) -> None:
    """Also the cursors a reader was given by items of the clean view itself."""
    made, _ = log
    items, had = read(made.log), ""
    for item in items:
        had = applied([item], had)
        if isinstance(item, Item):
            assert applied(read(made.log, Cursor.parse(item.cursor)), had) == made.text


@given(logs(), st.data())
def test_a_reader_that_was_there_earlier_ends_with_the_same_text(
    log: tuple[LogMaker, dict[Cursor, str]], data: st.DataObject
) -> None:
    """It read while the log was shorter, as a clean reader of that time, any number of times."""
    made, _ = log
    had, cursor = "", START
    sizes = data.draw(st.lists(st.integers(0, len(made.log)), max_size=4))
    for size in [*sorted(sizes), len(made.log)]:
        items = read(made.log[:size], cursor) if size else []
        had = applied(items, had)
        cursors = [Cursor.parse(item.cursor) for item in items if isinstance(item, Item)]
        cursor = cursors[-1] if cursors else cursor
    assert had == made.text


@given(logs())
def test_the_raw_view_is_every_entry_in_order(log: tuple[LogMaker, dict[Cursor, str]]) -> None:
    made, _ = log
    items = read(made.log, raw=True)
    assert [item.cursor for item in items if isinstance(item, Item)] == [
        str(each.at) for each in made.log
    ]


@given(logs())
def test_a_late_reader_sees_one_answer_and_no_cut(
    log: tuple[LogMaker, dict[Cursor, str]],
) -> None:
    items = read(log[0].log)
    assert not [item for item in items if isinstance(item, (Cut, Superseded))]
    assert "".join(item.text for item in items if isinstance(item, Text)) == log[0].text


@given(logs())
@settings(max_examples=50)
def test_what_the_scripts_can_write_is_whole(log: tuple[LogMaker, dict[Cursor, str]]) -> None:
    verdict = verify(log[0].log, attempts=log[0].attempt)
    assert verdict.ok
    assert verdict.length == len(log[0].text)


@given(logs(), st.data())
def test_a_log_that_was_replaced_is_read_again_from_its_start(
    log: tuple[LogMaker, dict[Cursor, str]], data: st.DataObject
) -> None:
    """A failover took the log back, and another attempt has taken the number of a lost one."""
    made, _ = log
    size = data.draw(st.integers(1, len(made.log)))
    other = LogMaker(log=made.log[:size], attempt=made.log[size - 1].at.attempt)
    other.claim(Mode.RESTART)
    for text in data.draw(texts):
        other.say(text)
    had = applied(read(made.log))
    for item in made.log[size:]:
        if item.at in {each.at for each in other.log}:
            return  # only a reader that was live can tell: see the contract tests
    last = made.log[-1].at
    if last <= other.log[-1].at:
        assert applied(read(other.log, last), had) == other.text


def test_an_attempt_that_keeps_all_is_no_cut() -> None:
    made = LogMaker()
    made.claim(Mode.START)
    made.say("one ")
    made.claim(Mode.REATTACH)
    made.say("two")
    kinds = [type(item) for item in read(made.log, Cursor(1, 1))]
    assert kinds == [Attempt, Text]
