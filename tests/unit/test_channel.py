"""What was said on a channel can be encoded, and a snapshot adds only its rest."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from worker.upstream.channel import Channel

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


def halves(text: str) -> str:
    """The text with each character outside the basic plane in its two halves."""
    units = text.encode("utf-16-le")
    return "".join(chr(int.from_bytes(units[i : i + 2], "little")) for i in range(0, len(units), 2))


@given(TEXT, st.lists(st.integers(0, 60), max_size=6))
def test_characters_cut_in_half_are_whole_again(text: str, places: list[int]) -> None:
    rough = halves(text)
    edges = [0, *sorted(min(place, len(rough)) for place in places), len(rough)]
    channel = Channel()

    said = "".join(channel.say(rough[a:b], rough=True) for a, b in pairwise(edges))

    assert said + channel.close() == text


@given(st.text(st.characters(), max_size=20))
def test_whatever_comes_what_is_said_can_be_encoded(text: str) -> None:
    channel = Channel()

    (channel.say(text, rough=True) + channel.close()).encode()


@given(TEXT, TEXT)
def test_a_snapshot_adds_what_was_not_said_yet(said: str, more: str) -> None:
    channel = Channel()
    channel.say(said)

    rest = channel.rest_of(said + more)
    assert rest == more
    assert channel.say(rest) == more
    assert channel.rest_of(said + more) == ""


def test_a_snapshot_that_says_something_else_adds_nothing() -> None:
    channel = Channel()
    channel.say("abc")

    assert channel.rest_of("abd and more") is None
    assert channel.rest_of("ab") is None
    assert channel.rest_of("") == ""


def test_the_other_half_may_come_with_the_snapshot() -> None:
    channel = Channel()

    assert channel.say("a\ud83d", rough=True) == "a"
    assert channel.rest_of("a\U0001f600b") == "\U0001f600b"
    assert channel.say("\U0001f600b") == "\U0001f600b"
    assert channel.close() == ""
