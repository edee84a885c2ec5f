"""Whatever stands in a file of requests, each line has one verdict and none stops the others."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tasks.batches.bodies import CHAT, RESPONSES
from tasks.batches.lines import LINE_BYTES, Asked, Fault, numbers, read

BODY = {"model": "m", "messages": [{"role": "user", "content": "?"}]}


def entry(custom_id: Any = "a", **changes: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": BODY} | changes


def lines(*parts: object) -> list[Asked | Fault]:
    raw = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in parts]
    return list(read(io.BytesIO(b"\n".join(raw))))


def faults(*parts: object) -> list[tuple[int, str]]:
    return [(each.line, each.code) for each in lines(*parts) if isinstance(each, Fault)]


def test_a_request_is_read_with_its_line() -> None:
    first, second = lines(entry("a"), entry("b"))

    assert isinstance(first, Asked)
    assert (first.line, first.custom_id, first.url, first.body) == (1, "a", CHAT, BODY)
    assert isinstance(second, Asked)
    assert second.line == 2


def test_an_escaped_character_is_one_and_half_of_one_in_a_name_does_no_harm() -> None:
    body = BODY | {"user": "\U0001f642 \\ud800"}
    first, second = lines(entry("a", body=body), entry("\ud800"))

    assert isinstance(first, Asked)
    assert first.body == body
    assert isinstance(second, Asked)


def test_a_byte_order_mark_and_blank_lines_and_a_missing_last_newline_do_no_harm() -> None:
    whole = b"\xef\xbb\xbf" + json.dumps(entry("a")).encode()

    found = lines(whole, b"", b"  \t\r", json.dumps(entry("b")).encode() + b"\r")

    assert [(type(each), each.line) for each in found] == [(Asked, 1), (Asked, 4)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{broken", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"n": ' + b"1" * 5000 + b"}", "invalid_json"),
        *((entry(body=BODY | {"top_p": float(x)}), "invalid_json") for x in ("nan", "-inf")),
        (json.dumps(entry(body=BODY | {"x": 1})).replace("1}", "1e999}").encode(), "invalid_json"),
        (entry(body=BODY | {"user": "\ud800"}), "invalid_encoding"),
        (b'{"custom_id": "\xff"}', "invalid_encoding"),
        (b"[1]", "invalid_request"),
        (b"null", "invalid_request"),
        (entry(None), "missing_custom_id"),
        (entry(""), "missing_custom_id"),
        (entry(7), "missing_custom_id"),
        (entry("x" * 513), "invalid_custom_id"),
        (entry(method="GET"), "invalid_method"),
        (entry(method=None), "invalid_method"),
        (entry(url="/v1/embeddings"), "invalid_url"),
        (entry(url=["x"]), "invalid_url"),
        (entry(body=None), "invalid_body"),
        (entry(body={"messages": BODY["messages"]}), "missing_model"),
        (entry(body={"model": "m"}), "missing_messages"),
        (entry(body=BODY | {"messages": []}), "missing_messages"),
        (entry(body=BODY | {"messages": ["hi"]}), "invalid_message"),
        (entry(body=BODY | {"n": 2}), "unsupported_parameter"),
        (entry(body=BODY | {"max_tokens": 0}), "invalid_parameter"),
        (entry(body=BODY | {"max_tokens": True}), "invalid_parameter"),
        (entry(body=BODY | {"reasoning_effort": 1}), "invalid_parameter"),
        (entry(url=RESPONSES, body=BODY), "missing_input"),
        (entry(url=RESPONSES, body={"model": "m", "input": ""}), "missing_input"),
    ],
)
def test_a_line_that_is_no_request_is_a_fault_with_its_number(line: object, code: str) -> None:
    assert faults(entry("before"), line, entry("behind")) == [(2, code)]


def test_the_second_of_two_equal_custom_ids_is_a_fault_that_names_the_first() -> None:
    *_, last = lines(entry("a"), entry("b"), entry("a"))

    assert isinstance(last, Fault)
    assert (last.code, last.custom_id) == ("duplicate_custom_id", "a")
    assert last.message == "custom_id 'a' stands in line 1 already"


def test_a_custom_id_of_a_faulty_line_can_be_used_by_a_sound_one() -> None:
    assert faults(entry("a", method="GET"), entry("a")) == [(1, "invalid_method")]


def test_a_line_of_20_mb_is_a_fault_and_the_next_one_is_read() -> None:
    large = json.dumps(entry("large", body=BODY | {"user": "x" * 20_000_000})).encode()

    found = lines(entry("a"), large, entry("b"))

    assert [(each.line, getattr(each, "code", "")) for each in found] == [
        (1, ""),
        (2, "line_too_long"),
        (3, ""),
    ]


@pytest.mark.parametrize("size", [LINE_BYTES - 1, LINE_BYTES, LINE_BYTES + 1])
def test_the_longest_line_is_one_of_the_limit(size: int) -> None:
    (fault,) = lines(b"x" * size)

    assert isinstance(fault, Fault)
    assert fault.code == ("line_too_long" if size > LINE_BYTES else "invalid_json")


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_give_one_verdict_for_each_line_that_is_not_blank(parts: list[bytes]) -> None:
    raw = b"\n".join(parts)
    expected = [n for n, line in enumerate(raw.split(b"\n"), 1) if line.strip()]

    assert [each.line for each in read(io.BytesIO(raw))] == expected
    assert list(numbers(io.BytesIO(raw))) == expected
