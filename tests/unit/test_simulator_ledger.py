"""The ledger: bounded, and shown without secrets."""

from __future__ import annotations

from tasks.local.simulator.ledger import Entry, Ledger, key_hash
from tasks.local.simulator.steps import Send
from tests.harness.simulated import chat_ask


def kept(ledger: Ledger, number: int, text: str = "text") -> Entry:
    entry = Entry(id=f"req_{number}", path="/", key="", arrived=float(number))
    ledger.open(entry)
    ledger.intend(entry, chat_ask(), text)
    return entry


def test_the_oldest_entries_go_first() -> None:
    ledger = Ledger(entries=3)
    for number in range(10):
        kept(ledger, number)

    assert [view["id"] for view in ledger.views()] == ["req_7", "req_8", "req_9"]
    assert ledger.get("req_6") is None


def test_long_texts_push_old_entries_out_and_the_last_one_stays() -> None:
    ledger = Ledger(text_chars=100)
    for number in range(5):
        kept(ledger, number, "x" * 60)

    assert len(ledger) == 1
    assert ledger.get("req_4") is not None


def test_what_was_sent_is_shown_as_a_prefix_and_billed() -> None:
    entry = kept(Ledger(), 1, "visible text")

    entry.sent(Send(data=b"-", text="visible", text_tokens=2))
    entry.sent(Send(data=b"-", thinking_tokens=5))

    view = entry.view()
    assert view["visible_sent"] == "visible"
    assert view["usage"]["completion_tokens"] == 7
    assert view["usage"]["reasoning_tokens"] == 5


def test_a_seed_is_counted_and_the_count_is_bounded() -> None:
    ledger = Ledger(entries=2)

    assert [ledger.count(seed) for seed in (b"a", b"a", b"b", b"c", b"a")] == [1, 2, 1, 1, 1]


def test_a_key_is_known_by_its_hash_only() -> None:
    assert "secret" not in key_hash("secret")
    assert key_hash("secret") == key_hash("secret") != key_hash("other")


def answered(ledger: Ledger, number: int, tokens: int, status: int = 200) -> Entry:
    entry = kept(ledger, number)
    entry.key, entry.status = "key-1", status
    entry.sent(Send(data=b"-", text="t", text_tokens=tokens))
    return entry


def test_the_bill_has_every_token_also_of_what_was_pushed_out_or_cut() -> None:
    ledger = Ledger(entries=2)
    cut = answered(ledger, 0, 7)
    for number in range(1, 5):
        answered(ledger, number, 1).ended = 1.0
    cut.sent(Send(data=b"-", text="t", text_tokens=3))
    cut.ended, cut.client_disconnected = 2.0, True

    (line,) = ledger.bill()
    prompt = chat_ask().prompt_tokens
    assert (line.key, line.requests, line.completion_tokens) == ("key-1", 5, 14)
    assert line.prompt_tokens == 5 * prompt


def test_a_refusal_and_a_response_taken_up_again_are_free() -> None:
    ledger = Ledger()
    answered(ledger, 1, 0, status=429)
    answered(ledger, 2, 0).asked = False

    assert ledger.bill() == []
