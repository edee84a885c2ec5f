"""`verify` names the entry that was changed, lost, repeated or moved, whichever it is."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.harness.logs import LogMaker, restarted
from worker.log import entries
from worker.log.cursor import Cursor
from worker.log.entries import Mode
from worker.log.stored import Stored
from worker.log.verify import Fault, Finding, verify

FIRST, SECOND = ["aban", "doned"], ["ke", "pt ", "wh", "öle 🌍"]


def log() -> list[Stored]:
    return list(restarted(FIRST, SECOND).log)


def at(text: str) -> int:
    """The index of an entry of `log()`."""
    return next(n for n, each in enumerate(log()) if str(each.at) == text)


def found(mutated: list[Stored], **record: int) -> list[tuple[str, str]]:
    verdict = verify(mutated, **record)  # type: ignore[arg-type]
    return [(finding.id, str(finding.fault)) for finding in verdict.findings]


def changed(each: Stored, old: bytes, new: bytes) -> Stored:
    assert old in each.payload
    return each._replace(payload=each.payload.replace(old, new))


def test_a_whole_log_is_found_whole() -> None:
    verdict = verify(log(), ended=True, attempts=2)
    assert verdict.ok
    assert (verdict.length, verdict.outcome, verdict.attempts) == (12, "completed", 2)


def test_a_log_that_still_grows_is_whole() -> None:
    assert verify(log()[:-2]).ok
    assert verify([]).ok


@pytest.mark.parametrize(("where", "old", "new"), [
    ("2-2", b"pt ", b"qt "),
    ("2-4", "🌍".encode(), "🌎".encode()),
    ("1-1", b"aban", b"bban"),
    ("2-0", b'"w2"', b'"w3"'),
    ("2-1", b'"offset":0', b'"offset":1'),
    ("2-5", b"completed", b"cancelled"),
    ("2-3", b"{", b"["),
])  # fmt: skip
def test_a_changed_entry_is_named(where: str, old: bytes, new: bytes) -> None:
    entries_ = log()
    entries_[at(where)] = changed(entries_[at(where)], old, new)
    assert (where, "changed") in found(entries_)


def test_a_change_in_a_superseded_attempt_is_told_apart() -> None:
    entries_ = log()
    entries_[at("1-2")] = changed(entries_[at("1-2")], b"doned", b"donut")
    assert verify(entries_).findings == (
        Finding("1-2", Fault.CHANGED, "it is not what its writer has written", clean=False),
    )


@pytest.mark.parametrize("where", ["1-0", "1-1", "2-0", "2-1", "2-4"])
def test_a_missing_entry_is_named(where: str) -> None:
    entries_ = log()
    del entries_[at(where)]
    assert (where, "missing") in found(entries_)


def test_a_missing_stretch_is_named_by_both_ends() -> None:
    entries_ = log()
    del entries_[at("2-2") : at("2-4")]
    (finding,) = verify(entries_).findings
    assert (finding.id, finding.fault) == ("2-2", Fault.MISSING)
    assert "up to 2-3" in finding.says


def test_an_attempt_that_is_gone_is_missing() -> None:
    assert found([each for each in log() if each.at.attempt == 2]) == [("1-0", "missing")]
    assert ("3-0", "missing") in found(log(), attempts=3)


def test_the_last_entries_of_a_sealed_log_are_missed() -> None:
    assert found(log()[:-1], ended=True, attempts=2) == [("2-5", "missing")]
    assert found([], ended=True, attempts=1) == [("1-0", "missing")]


def test_a_repeated_entry_is_named_even_when_its_offset_was_mended() -> None:
    entries_ = log()
    twice = entries_[at("2-2")]._replace(at=Cursor(2, 3))
    shifted = [each._replace(at=Cursor(2, each.at.seq + 1)) for each in entries_[at("2-3") :]]
    assert found([*entries_[: at("2-3")], twice, *shifted])[0] == ("2-3", "repeated")


def test_entries_that_changed_places_are_named() -> None:
    entries_ = log()
    one, two = at("2-2"), at("2-3")
    entries_[one], entries_[two] = (
        entries_[two]._replace(at=Cursor(2, 2)),
        entries_[one]._replace(at=Cursor(2, 3)),
    )
    assert found(entries_)[:2] == [("2-2", "reordered"), ("2-3", "reordered")]


def test_an_entry_behind_the_seal_is_named() -> None:
    made = restarted(FIRST, SECOND)
    made.say("more")
    assert found(made.log) == [("2-6", "reordered")]


def test_text_that_an_attempt_goes_on_from_must_be_there() -> None:
    made = LogMaker()
    made.claim(Mode.START)
    made.say("one ")
    made.say("two ")
    made.claim(Mode.REATTACH)
    made.say("three")
    made.seal()
    assert verify(made.log, ended=True).ok
    without = [each for each in made.log if each.at != Cursor(1, 2)]
    assert ("1-2", "missing") in found(without)


def test_a_seal_that_does_not_fit_its_text_is_found_though_all_links_hold() -> None:
    made = LogMaker()
    made.claim(Mode.START)
    made.say("abc")
    made.text = "abd"
    made.seal()
    assert found(made.log) == [("1-2", "changed")]


@given(st.data())
def test_no_damage_to_any_log_goes_unnoticed(data: st.DataObject) -> None:
    texts = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4)
    made = restarted(data.draw(texts), data.draw(texts))
    assert verify(made.log, ended=True, attempts=2).ok
    damaged = list(made.log)
    index = data.draw(st.integers(0, len(damaged) - 1))
    kind = data.draw(st.sampled_from(["drop", "bit", "swap"]))
    if kind == "drop":
        del damaged[index]
    elif kind == "bit":
        payload = bytearray(damaged[index].payload)
        place = data.draw(st.integers(0, len(payload) - 1))
        payload[place] ^= 1 << data.draw(st.integers(0, 7))
        damaged[index] = damaged[index]._replace(payload=bytes(payload))
    else:
        other = data.draw(st.sampled_from([n for n in range(len(damaged)) if n != index]))
        mine, its = damaged[index], damaged[other]
        damaged[index], damaged[other] = its._replace(at=mine.at), mine._replace(at=its.at)
    assert verify(damaged, ended=True, attempts=2).findings


def test_every_entry_has_its_own_check() -> None:
    checks = [each.check for each in log()]
    assert len(set(checks)) == len(checks)
    assert checks[0] == entries.check_of_first(log()[0].payload)
