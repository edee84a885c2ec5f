from __future__ import annotations

import pytest
from configuration import ONE_KEY, given, problems_of

from settings import Account, SettingsError

TWO_POOLS = """
[accounts.acme]
streams = 4
tokens_per_minute = 90_000

[pools.fast]
models = ["gpt-*-mini", "deepseek-*"]
[[pools.fast.keys]]
alias = "cheap"
provider = "deepseek"
secret = "sk-cheap-0123456789"

[pools.rest]
[[pools.rest.keys]]
alias = "first"
provider = "holysheep"
secret_env = "FIRST_KEY"
account = "acme"
[[pools.rest.keys]]
alias = "second"
provider = "generic"
base_url = "https://llm.example.com/v1/"
secret = "sk-second-0123456789"
account = "acme"
"""


def test_pools_keep_their_order_and_keys_take_url_and_account_from_profile_and_alias() -> None:
    settings = given(TWO_POOLS, {"FIRST_KEY": "sk-first"})

    assert list(settings.pools) == ["fast", "rest"]
    cheap, first, second = (key for pool in settings.pools.values() for key in pool.keys)
    assert (cheap.base_url, cheap.account) == ("https://api.deepseek.com/v1", "cheap")
    assert first.secret.get_secret_value() == "sk-first"
    assert second.base_url == "https://llm.example.com/v1"
    assert first.account == second.account == "acme"


def test_a_model_is_served_by_the_first_pool_whose_pattern_fits() -> None:
    settings = given(TWO_POOLS, {"FIRST_KEY": "sk-first"})

    assert settings.pool_for("gpt-5.5-mini").name == "fast"
    assert settings.pool_for("gpt-5.5-codex").name == "rest"


def test_an_account_that_only_a_key_names_has_no_limits() -> None:
    accounts = given(TWO_POOLS, {"FIRST_KEY": "sk-first"}).accounts

    assert accounts["acme"] == Account(name="acme", streams=4, tokens_per_minute=90_000)
    assert accounts["cheap"] == Account(name="cheap")


def test_an_account_of_two_pools_is_a_problem() -> None:
    toml = TWO_POOLS.replace('secret = "sk-cheap', 'account = "acme"\nsecret = "sk-cheap')

    (problem,) = problems_of(toml, {"FIRST_KEY": "sk-first"})

    assert problem.startswith("account 'acme': keys of the pools fast, rest use it")


def test_an_account_no_key_uses_is_a_problem_since_its_limits_would_do_nothing() -> None:
    toml = TWO_POOLS.replace("[accounts.acme]", "[accounts.acm]")

    assert problems_of(toml, {"FIRST_KEY": "sk-first"}) == (
        "accounts.acm: no key uses this account, did you mean 'acme'? (longstream.toml)",
    )


def test_a_key_that_is_refused_still_counts_for_its_account() -> None:
    toml = TWO_POOLS.replace('"holysheep"', '"holy"').replace("example.com", "example.com?")

    assert [problem.split(":")[0] for problem in problems_of(toml, {"FIRST_KEY": "k"})] == [
        "key 'first'",
        "key 'second'",
    ]


def test_two_keys_of_one_alias_are_a_problem_even_in_two_pools() -> None:
    toml = TWO_POOLS.replace('"cheap"', '"second"')

    problems = problems_of(toml, {"FIRST_KEY": "sk-first"})

    assert problems == ("key 'second': 2 keys have this alias, and it must be unique",)


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ("[pools.a]", "pools.a: has no key, add one under [[pools.a.keys]]"),
        ("[pools.a.keys]\nalias = 'x'", "pools.a.keys: expected one [[pools.a.keys]] for each key"),
        ("[pools.a]\nkeys = [1]", "pools.a.keys: expected one [[pools.a.keys]] for each key"),
        ("[pools]\na = 1", "pools.a: expected a table, got 1"),
        ("pools = []", "pools: expected a table, got a list"),
        ("accounts = 'x'", "accounts: expected a table, got 'x'"),
        ("[accounts]\nx = 'y'", "accounts.x: expected a table, got 'y'"),
    ],
)
def test_a_table_of_the_wrong_shape_is_reported_with_the_right_one(toml: str, problem: str) -> None:
    assert problems_of(toml) == (f"{problem} (longstream.toml)",)


@pytest.mark.parametrize("models", ["'gpt-*'", "[]", "[1]", "['']", "{}"])
def test_models_are_a_list_of_patterns(models: str) -> None:
    assert problems_of(f"[pools.default]\nmodels = {models}\n{ONE_KEY}") == (
        "pools.default.models: expected a list of model names or patterns (longstream.toml)",
    )


@pytest.mark.parametrize(
    ("line", "place", "meant"),
    [
        ("[worker]\nconcurency = 1", "worker.concurency", "concurrency"),
        ("[workers]", "workers", "worker"),
        ("[pools.default]\nmodel = 1", "pools.default.model", "models"),
        ("[accounts.main]\nstream = 1", "accounts.main.stream", "streams"),
    ],
)
def test_an_unknown_name_in_the_file_is_reported_with_the_nearest_known(
    line: str, place: str, meant: str
) -> None:
    (problem,) = problems_of(f"{line}\n{ONE_KEY}")

    assert problem == f"{place}: unknown setting, did you mean {meant!r}? (longstream.toml)"


def test_limits_are_checked_like_every_number() -> None:
    assert problems_of(f"[accounts.main]\nstreams = 0\n{ONE_KEY}") == (
        (
            "accounts.main.streams: expected a whole number from 1 to 1000000000000, got 0"
            " (longstream.toml)"
        ),
    )


@pytest.mark.parametrize("name", ["a b", "{x}", "ü", "-a", "a:b", "a" * 65])
def test_names_that_cannot_stand_in_a_redis_key_are_refused(name: str) -> None:
    (problem,) = problems_of(ONE_KEY.replace("pools.default", f'pools."{name}"'))

    assert "expected a name of letters, digits" in problem


def test_without_pools_the_error_says_how_to_set_a_key() -> None:
    with pytest.raises(SettingsError) as caught:
        given().require_pools()

    assert caught.value.problems == (
        (
            "no API key is configured: set OPENAI_API_KEY and OPENAI_BASE_URL"
            " (https://api.openai.com/v1), or HOLYSHEEP_API_KEY and HOLYSHEEP_BASE_URL"
            " (https://api.holysheep.ai/v1), or define [pools] in longstream.toml"
        ),
    )
    with pytest.raises(SettingsError, match="no API key is configured"):
        given().pool_for("gpt-5.5-codex")


def test_an_unknown_model_is_reported_with_what_is_served() -> None:
    settings = given(f'[pools.default]\nmodels = ["b-*", "a"]\n{ONE_KEY}')

    with pytest.raises(SettingsError, match=r"unknown model 'c': .* pools serve a, b-\*"):
        settings.pool_for("c")


FAMILY = """
[accounts.acme]
refill = "slices"
burst = 0.1
accounting = "produced"
day_zone = "America/Los_Angeles"
[accounts.acme.families."gpt-5.5*"]
tokens_per_minute = 400_000
[[pools.p.keys]]
alias = "k"
provider = "openai"
secret = "sk-0123456789"
account = "acme"
"""


def test_an_account_may_limit_families_of_models() -> None:
    account = given(FAMILY).accounts["acme"]

    (family,) = account.families
    assert (family.models, family.tokens_per_minute) == ("gpt-5.5*", 400_000)
    assert (account.refill, account.burst, account.accounting) == ("slices", 0.1, "produced")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("tokens_per_minute = 400_000", "tokens_per_minute = 0"),
        ("tokens_per_minute = 400_000", "tokens_per_hour = 4"),
        ('refill = "slices"', 'refill = "often"'),
        ("burst = 0.1", "burst = 2"),
        ('day_zone = "America/Los_Angeles"', 'day_zone = "Mars/Olympus"'),
        ('[accounts.acme.families."gpt-5.5*"]\n', "families = 3\n"),
    ],
)
def test_what_is_wrong_with_an_account_is_told_by_name(wrong: str, told: str) -> None:
    assert wrong in FAMILY
    (problem,) = problems_of(FAMILY.replace(wrong, told))
    assert told.split(" = ")[0] in problem
