"""Which model a job gets that asks for none in particular."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from configuration import ONE_KEY, given, problems_of

from settings.model import Settings
from settings.prices import Price
from settings.routing import Routing, shipped_routes
from tasks.cli.ask import command as ask
from tasks.cli.batch import command
from tasks.cli.refactor import command as refactor
from tasks.cli.routes import told
from tasks.submitting import routed, submitted
from worker.job.routing import Choice
from worker.ledger.spending import Spending
from worker.ledger.totals import saved_by
from worker.log.entries import Tokens

SETTINGS = given(ONE_KEY + '[routing]\nlight = "light"\nstrong = "strong"\n')
FILE = {"path": "a.py", "text": "x = 1\n"}


def generated(prompt: str, settings: Settings = SETTINGS, **more: object) -> Choice:
    return routed(settings, "tasks.generate", (prompt,), {"model": "auto", **more})


def refactored(instruction: str, text: str = "x = 1\n") -> Choice:
    files = [{"path": "a.py", "text": text}]
    return routed(SETTINGS, "tasks.refactor", (files, instruction), {"model": "auto"})


@pytest.mark.parametrize(
    ("prompt", "rule"),
    [
        ("Extract all dates from: ...", "extract"),
        ("Please find all names in this letter", "extract"),
        ("Classify this ticket: it burns", "classify"),
        ("What is the sentiment of this?", "classify"),
        ("Summarise this report.", "summarise"),
        ("SUMMARIZE: ...", "summarise"),
    ],
)
def test_what_needs_no_long_reasoning_goes_to_the_lighter_model(prompt: str, rule: str) -> None:
    assert generated(prompt) == Choice("light", rule, "strong", f"rule {rule}")


@pytest.mark.parametrize(
    "prompt", ["Prove it.", "Why is the sky blue?", "x" * 300 + " summarise", "unclassified", ""]
)
def test_what_no_rule_matches_goes_to_the_strong_model(prompt: str) -> None:
    choice = generated(prompt or "?")

    assert (choice.model, choice.rule, choice.why) == ("strong", "", "no rule matches")


def test_much_effort_or_a_long_prompt_is_not_for_the_lighter_model() -> None:
    assert generated("Summarise this.", effort="high").model == "strong"
    assert generated("Summarise this." + " word" * 100_000).model == "strong"


@pytest.mark.parametrize(
    ("instruction", "model"),
    [("Add type hints", "light"), ("rename x to y", "light"), ("use asyncio", "strong")],
)
def test_a_simple_refactor_goes_to_the_lighter_model(instruction: str, model: str) -> None:
    assert refactored(instruction).model == model


def test_a_large_file_is_no_simple_refactor() -> None:
    assert refactored("Add type hints", "x = 1\n" * 20_000).model == "strong"


def test_a_model_that_is_named_is_not_questioned() -> None:
    assert generated("Summarise this.", model="mine") == Choice("mine", why="it was named")


def test_without_a_lighter_model_nothing_is_sent_to_one_and_the_reason_is_told() -> None:
    choice = generated("Summarise this.", given(ONE_KEY))

    assert (choice.model, choice.rule) == ("gpt-5.5-codex", "")
    assert choice.why == (
        "rule summarise matches, and no lighter model is named: set light under [routing] in"
        " longstream.toml, or LONGSTREAM_ROUTING__LIGHT"
    )


def test_rules_of_the_file_come_first_and_replace_those_of_the_same_name() -> None:
    settings = given(
        ONE_KEY
        + '[routing]\nlight = "light"\n[routes.tickets]\nwords = ["ticket"]\nmodel = "tiny"\n'
        + '[routes.summarise]\nwords = ["kurz"]\n'
    )

    assert generated("Classify this ticket", settings).model == "tiny"
    assert generated("Fasse kurz zusammen", settings).rule == "summarise"
    assert generated("Summarise this.", settings).rule == ""


def test_auto_can_be_the_default_model() -> None:
    settings = given('model = "auto"\n' + ONE_KEY + '[routing]\nlight = "light"\n')

    assert routed(settings, "tasks.generate", ("Summarise this.",), {}).model == "light"


def test_a_submission_carries_the_choice() -> None:
    body = {"model": "auto", "messages": [{"role": "user", "content": "Summarise this."}]}

    job = submitted(
        SETTINGS, "tasks.batch", ("/v1/chat/completions", body), {}, job_id="j", tenant="t"
    )

    assert (job.model, job.rule, job.instead_of) == ("light", "summarise", "strong")
    assert job.message.body[1]["model"] == "light"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("word = ['a']", "word: unknown setting, did you mean 'words'?"),
        ("words = 'a'", "words: expected text, or a list of texts"),
        ("max_input_tokens = '9'", "max_input_tokens: expected a whole number"),
    ],
)
def test_a_rule_that_cannot_be_read_is_a_problem(line: str, problem: str) -> None:
    assert problems_of(f"[routes.mine]\n{line}\n") == (f"routes.mine.{problem} (longstream.toml)",)


def test_fallbacks_must_be_lists_of_models() -> None:
    assert given(ONE_KEY + '[fallbacks]\n"a-*" = ["b"]\n').fallbacks == {"a-*": ("b",)}
    assert problems_of('[fallbacks]\na = "b"\n') == (
        "fallbacks.a: expected a list of model names (longstream.toml)",
    )


def test_every_shipped_rule_says_for_what_and_how_large() -> None:
    for rule in shipped_routes().values():
        assert rule.kinds
        assert rule.words
        assert rule.max_input_tokens


def test_what_a_rule_saved_is_reckoned_from_what_was_used() -> None:
    settings = Settings(
        routing=Routing(light="light"),
        prices={"light": Price(output=1.0), "big": Price(output=9.0)},
    )
    spent = [Spending(attempt=1, at_ms=0, model="light", tokens=Tokens(input=5, output=10**6))]

    assert saved_by(spent, "big", settings) == 8.0
    assert saved_by(spent, "unknown", settings) is None
    choice = Choice("light", "r", "big", "rule r")
    assert told(choice, settings).endswith("rule r; saves 8.00 USD per million output tokens")
    assert told(Choice("x", "r", "big", "rule r"), settings).endswith("since a price is")


def test_a_dry_run_of_a_batch_tells_models_rules_and_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "longstream.toml").write_text(ONE_KEY + '[routing]\nlight = "light"\n')
    lines = [b"{broken"]
    for n, prompt in enumerate(["Summarise this.", "Summarise that.", "Prove it."]):
        body = {"model": "auto", "messages": [{"role": "user", "content": prompt}]}
        entry = {"custom_id": f"{n}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        lines.append(json.dumps(entry).encode())
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    monkeypatch.chdir(tmp_path)

    arguments = ["run", "in.jsonl", "-o", "out.jsonl", "--dry-run"]
    result = CliRunner().invoke(command, arguments)

    first, second, third = result.output.splitlines()
    assert first.startswith("2 of light (rule summarise): ")
    assert second.startswith("1 of gpt-5.5-codex (no rule matches): ")
    assert third == "1 with an error: invalid_json"
    assert not (tmp_path / "out.jsonl").exists()


def test_a_dry_run_of_a_refactor_shows_files_model_and_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "longstream.toml").write_text(ONE_KEY + '[routing]\nlight = "deepseek-v3.2"\n')
    (tmp_path / "a.py").write_text("def f(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)

    arguments = ["a.py", "-m", "Add type hints", "--model", "auto", "--dry-run"]
    result = CliRunner().invoke(refactor, arguments)

    assert result.exit_code == 0, result.output
    assert (
        "model deepseek-v3.2 instead of gpt-5.5-codex: rule simple-refactor; saves 11.58 USD per "
        "million output tokens"
    ) in result.output
    assert "1 file, about" in result.output
    assert "tokens to deepseek-v3.2 in 1 job" in result.output


def test_a_dry_run_of_a_question_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "longstream.toml").write_text('[routing]\nlight = "deepseek-v3.2"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGSTREAM_STATE_DIR", str(tmp_path / "state"))

    result = CliRunner().invoke(ask, ["Summarise this.", "--model", "auto", "--dry-run"])

    assert result.exit_code == 0, result.output
    assert "model deepseek-v3.2 instead of gpt-5.5-codex: rule summarise" in result.output
    assert [each.name for each in tmp_path.iterdir()] == ["longstream.toml"]
