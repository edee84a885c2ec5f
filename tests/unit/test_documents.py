"""Broken documents are mended, or refused; never skipped."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from worker.upstream.documents import DONE, MAX_PIECES, Documents, Shape
from worker.upstream.sse import Event


class Doc(msgspec.Struct):
    n: int
    s: str = ""


SHAPE = Shape(Doc)


def take(*payloads: str | bytes) -> tuple[list[object], Documents[Doc]]:
    documents = Documents(SHAPE)
    events = [Event(p.encode() if isinstance(p, str) else p) for p in payloads]
    return [document for event in events for document in documents.take([event])], documents


def test_events_of_the_common_shape_are_typed() -> None:
    documents = Documents(SHAPE)

    assert documents.take([Event(b'{"n":1}'), Event(b'{"n":2,"x":0}')]) == [Doc(1), Doc(2)]


def test_the_sentinel_is_told_from_documents_in_one_read() -> None:
    documents = Documents(SHAPE)

    assert documents.take([Event(b'{"n":1}'), Event(b" [DONE] ")]) == [Doc(1), DONE]


@pytest.mark.parametrize("at", range(1, 26))
def test_a_document_cut_over_two_events_is_rejoined_wherever_the_cut_is(at: int) -> None:
    whole = '{"n":1,"s":"a\\u00e9 b",}'.replace(",}", "}").encode() + b""

    if at < len(whole):
        found, documents = take(whole[:at], whole[at:])

        assert found == [{"n": 1, "s": "aé b"}]
        assert documents.notes["split_document"] == 1


def test_a_document_cut_inside_a_character_is_rejoined() -> None:
    whole = '{"n":1,"s":"é"}'.encode()
    at = whole.index(b"\xa9")

    found, documents = take(whole[:at], whole[at:])
    assert found == [{"n": 1, "s": "é"}]
    assert not documents.notes["replaced_bytes"]


def test_a_glued_document_cut_inside_a_character_is_rejoined() -> None:
    whole = '{"n":1,"s":"é"}{"n":2,"s":"é"}'.encode()
    at = whole.rindex(b"\xa9")

    assert take(whole[:at], whole[at:])[0] == [{"n": 1, "s": "é"}, {"n": 2, "s": "é"}]


@pytest.mark.parametrize("glue", ["", "\n", " ", ",", "data: ", "\ndata:"])
def test_documents_glued_into_one_event_are_taken_apart_in_order(glue: str) -> None:
    found, documents = take('{"n":1}' + glue + '{"n":2}')

    assert found == [{"n": 1}, {"n": 2}]
    assert documents.notes["glued_documents"] == 1


def test_a_glued_document_whose_second_is_cut_is_both() -> None:
    assert take('{"n":1}{"n"', ":2}")[0] == [{"n": 1}, {"n": 2}]


def test_a_cut_and_a_glued_document_in_one_read_do_not_make_up_for_each_other() -> None:
    documents = Documents(SHAPE)
    payloads = [b'{"n":1,"s":"a', b'b"}', b'{"n":2},{"n":3}']

    found = documents.take([Event(payload) for payload in payloads])

    assert found == [{"n": 1, "s": "ab"}, {"n": 2}, {"n": 3}]


def test_a_document_over_several_data_lines_is_one_document() -> None:
    assert take('{\n"n":\n1}')[0] == [Doc(1)]


@pytest.mark.parametrize(
    "garbage", ["oops", '{"n": @ , "m": "long enough"}', "{]    and on and on"]
)
def test_garbage_is_refused_with_its_first_bytes(garbage: str) -> None:
    found, documents = take('{"n":1}', garbage, '{"n":2}')

    assert found == [Doc(1)]
    assert documents.failed is not None
    assert documents.failed.kind == "protocol"
    assert documents.failed.sample == garbage.encode()
    assert garbage not in str(documents.failed)


def test_a_cut_document_followed_by_a_whole_one_is_refused() -> None:
    found, documents = take('{"n":1,"s":"', '{"n":2}')

    assert found == []
    assert documents.failed is not None


def test_a_document_is_not_rejoined_for_ever() -> None:
    _, documents = take('{"s":"', *["x"] * (MAX_PIECES + 1))

    assert documents.failed is not None


def test_a_sample_is_no_longer_than_200_bytes() -> None:
    _, documents = take("z" * 5000)

    assert documents.failed is not None
    assert len(documents.failed.sample) == 200


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    _, documents = take("[" * 100_000)

    assert documents.failed is not None


@pytest.mark.parametrize(
    ("payload", "note"),
    [("", "empty_event"), ("null", "null_event"), ("[]", "stray_value"), ("1", "stray_value"),
     (": PROCESSING", "comment_as_data")],
)  # fmt: skip
def test_what_is_no_document_is_counted_and_passed_over(payload: str, note: str) -> None:
    found, documents = take(payload, '{"n":1}')

    assert found == [Doc(1)]
    assert documents.notes[note] == 1


def test_invalid_utf8_costs_a_character_and_not_the_stream() -> None:
    found, documents = take(b'{"n":1,"s":"a\xffb"}')

    assert found == [{"n": 1, "s": "a\ufffdb"}]
    assert documents.notes["replaced_bytes"] == 1


@pytest.mark.parametrize(
    "payload", ['{"n":1,"s":"a\tb"}', '{"n":1,"s":"\\ud83d"}', '{"n":1,"s":NaN}']
)
def test_json_that_only_a_lenient_parser_reads_is_read(payload: str) -> None:
    found, _ = take(payload)

    assert isinstance(found[0], dict | Doc)


DOCUMENT = st.fixed_dictionaries({"n": st.integers(), "s": st.text(st.characters(codec="utf-8"))})


@given(st.lists(DOCUMENT, min_size=1, max_size=4), st.data())
def test_any_cut_of_any_document_gives_the_document_back(
    documents: list[dict[str, object]], data: st.DataObject
) -> None:
    payloads: list[bytes] = []
    for document in documents:
        whole = json.dumps(document, ensure_ascii=data.draw(st.booleans())).encode()
        at = data.draw(st.integers(1, len(whole) - 1))
        payloads += [whole[:at], whole[at:]]

    found, _ = take(*payloads)

    assert found == documents
