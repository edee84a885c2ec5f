"""What a job is estimated at, and which jobs are refused before they wait."""

from __future__ import annotations

from typing import Any

import pytest

from settings import LongstreamError
from settings.model import Account, Family, Pool, Settings
from tests.harness.lines import key
from worker.admission.estimates import Estimate, estimate, pool_taking
from worker.job.submission import Submission
from worker.messages.message import plain_message
from worker.upstream.request import Message, Request


def request(text: str, **more: object) -> Request:
    return Request(model="m", messages=(Message("user", text),), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("word " * 700, 900, 1_100),
        ("def f(x): return x\n" * 100, 500, 600),
        ("漢字" * 500, 800, 900),
    ],
)
def test_a_prompt_is_rather_taken_for_too_large(text: str, least: int, most: int) -> None:
    assert least <= estimate(request(text)).prompt <= most


@pytest.mark.parametrize("content", ["half of \ud83d", [{"type": "text", "text": "\udcff"}]])
def test_text_that_can_not_be_sent_is_refused_before_it_is_submitted(content: Any) -> None:
    with pytest.raises(LongstreamError, match=r"^the prompt has U\+D.*, which is no character$"):
        estimate(Request(model="m", messages=(Message("user", content),)))


def test_the_limit_of_the_answer_and_the_effort_are_kept() -> None:
    size = estimate(request("x", max_output_tokens=77, effort="high"))
    assert (size.cap, size.effort) == (77, "high")
    assert estimate(request("x")).effort == "low"


def configured(*accounts: Account) -> Settings:
    pool = Pool(name="p", keys=tuple(key(account.name) for account in accounts))
    return Settings(pools={"p": pool}, accounts={account.name: account for account in accounts})


def test_a_job_larger_than_every_limit_is_refused_with_the_way_out() -> None:
    settings = configured(
        Account(name="a", tokens_per_minute=1_000), Account(name="b", tokens_per_minute=2_000)
    )
    assert pool_taking(settings, "m", Estimate(prompt=1_500)).name == "p"
    with pytest.raises(LongstreamError) as refused:
        pool_taking(settings, "m", Estimate(prompt=2_500))
    for words in ("2,500 tokens", "2,000 a minute", "account a, account b", "tokens_per_minute"):
        assert words in str(refused.value)


def test_one_account_without_a_limit_takes_everything() -> None:
    settings = configured(Account(name="a", tokens_per_minute=1_000), Account(name="b"))
    assert pool_taking(settings, "m", Estimate(prompt=10**9))


def test_the_limit_of_a_family_counts_for_its_models_alone() -> None:
    family = Family(models="big-*", tokens_per_minute=500)
    settings = configured(Account(name="a", tokens_per_minute=1_000, families=(family,)))
    assert pool_taking(settings, "small", Estimate(prompt=800))
    with pytest.raises(LongstreamError, match="500 a minute"):
        pool_taking(settings, "big-1", Estimate(prompt=800))


def test_where_the_cap_counts_at_admission_it_counts_here() -> None:
    settings = configured(Account(name="a", tokens_per_minute=1_000, accounting="admission"))
    with pytest.raises(LongstreamError, match="1,100 tokens"):
        pool_taking(settings, "m", Estimate(prompt=100, cap=1_000))


def test_a_pool_without_a_key_is_refused() -> None:
    with pytest.raises(LongstreamError, match="pool p has no key"):
        pool_taking(Settings(pools={"p": Pool(name="p", keys=())}), "m", Estimate())


@pytest.mark.parametrize("field", [{"priority": "very"}, {"tenant": ""}, {"tenant": "x" * 201}])
def test_a_wrong_class_or_tenant_is_refused(field: dict[str, str]) -> None:
    job = Submission(
        job_id="j",
        task="t",
        model="m",
        pool="p",
        label="l",
        message=plain_message("t", "j", [], {}),
        **field,  # type: ignore[arg-type]
    )
    with pytest.raises(LongstreamError):
        job.ticket()
