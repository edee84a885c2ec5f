from __future__ import annotations

import pytest
from configuration import ONE_KEY, given, problems_of

OPENAI = {"OPENAI_API_KEY": "sk-openai-1", "OPENAI_BASE_URL": "https://api.openai.com/v1"}
HOLYSHEEP = {
    "HOLYSHEEP_API_KEY": "sk-holy-1",
    "HOLYSHEEP_BASE_URL": "https://api.holysheep.ai/v1",
}
SIMULATED = {"LONGSTREAM_SIMULATOR_URL": "http://127.0.0.1:8000/v1"}


@pytest.mark.parametrize(("environ", "alias"), [(OPENAI, "openai"), (HOLYSHEEP, "holysheep")])
def test_a_pair_is_a_pool_of_its_own(environ: dict[str, str], alias: str) -> None:
    settings = given(environ=environ)

    assert list(settings.pools) == [alias]
    (key,) = settings.pools[alias].keys
    assert (key.alias, key.provider, key.account) == (alias, alias, alias)
    assert {key.secret.get_secret_value(), key.base_url} == set(environ.values())
    assert list(settings.accounts) == [alias]
    assert not settings.simulated


def test_two_pairs_are_two_keys_of_one_pool() -> None:
    settings = given(environ=OPENAI | HOLYSHEEP)

    (pool,) = settings.pools.values()
    assert pool.name == "default"
    assert [(key.alias, key.base_url) for key in pool.keys] == [
        ("openai", OPENAI["OPENAI_BASE_URL"]),
        ("holysheep", HOLYSHEEP["HOLYSHEEP_BASE_URL"]),
    ]


@pytest.mark.parametrize("name", ["openai", "holysheep"])
def test_a_key_alone_is_a_problem_that_names_the_url_to_set(name: str) -> None:
    url = (OPENAI | HOLYSHEEP)[f"{name.upper()}_BASE_URL"]

    assert problems_of(environ={f"{name.upper()}_API_KEY": "sk-1"}) == (
        (
            f"{name.upper()}_API_KEY is set but {name.upper()}_BASE_URL is not:"
            f" set {name.upper()}_BASE_URL={url}, or unset {name.upper()}_API_KEY"
        ),
    )


@pytest.mark.parametrize("name", ["openai", "holysheep"])
def test_a_url_alone_is_a_problem_that_names_the_missing_key(name: str) -> None:
    (problem,) = problems_of(environ={f"{name.upper()}_BASE_URL": "https://api.example.com/v1"})

    assert problem.startswith(
        f"{name.upper()}_BASE_URL is set but {name.upper()}_API_KEY is not: set it to a key"
    )


def test_halves_of_two_pairs_never_make_a_whole() -> None:
    halves = {
        "OPENAI_API_KEY": "sk-openai-1",
        "HOLYSHEEP_BASE_URL": HOLYSHEEP["HOLYSHEEP_BASE_URL"],
    }

    assert len(problems_of(environ=halves)) == 2


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.holysheep.ai/v1", "holysheep"),
        ("https://API.deepseek.com", "deepseek"),
        ("https://openrouter.ai/api/v1/", "openrouter"),
        ("https://llm.example.com/v1", "generic"),
        ("https://api.openai.com.example.com/v1", "generic"),
        ("http://127.0.0.1:11434/v1", "generic"),
    ],
)
def test_the_profile_of_the_openai_pair_is_chosen_by_host(url: str, provider: str) -> None:
    settings = given(environ={"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": url})

    assert settings.pools["openai"].keys[0].provider == provider


def test_the_key_of_one_provider_is_not_sent_to_another() -> None:
    (problem,) = problems_of(
        environ=HOLYSHEEP | {"HOLYSHEEP_BASE_URL": "https://api.openai.com/v1"}
    )

    assert problem == (
        "key 'holysheep': base_url: this is the address of openai, which must not receive a key"
        " of holysheep (HOLYSHEEP_API_KEY, HOLYSHEEP_BASE_URL)"
    )


@pytest.mark.parametrize("url", ["https://[::1", "nonsense", "http://example.com/v1"])
def test_a_bad_url_of_a_pair_is_a_problem(url: str) -> None:
    (problem,) = problems_of(environ=OPENAI | {"OPENAI_BASE_URL": url})

    assert problem.startswith("key 'openai': base_url: ")
    assert problem.endswith("(OPENAI_API_KEY, OPENAI_BASE_URL)")


def test_pairs_are_ignored_even_by_halves_when_the_file_has_pools() -> None:
    settings = given(ONE_KEY, OPENAI | {"HOLYSHEEP_API_KEY": "half"} | SIMULATED)

    assert [key.alias for pool in settings.pools.values() for key in pool.keys] == ["main"]


def test_a_file_without_pools_sets_the_limits_of_a_pair() -> None:
    settings = given("[accounts.openai]\nstreams = 2", OPENAI)

    assert settings.accounts["openai"].streams == 2
    assert given("[accounts.openai]\nstreams = 2").pools == {}


def test_the_simulator_stands_in_when_no_key_is_there() -> None:
    settings = given(environ=SIMULATED)

    (key,) = settings.pools["simulator"].keys
    assert (key.alias, key.provider) == ("simulator", "simulator")
    assert key.base_url == SIMULATED["LONGSTREAM_SIMULATOR_URL"]
    assert key.secret.get_secret_value() == "simulated"
    assert settings.pools["simulator"].models == ("*",)
    assert settings.simulated


def test_the_simulator_may_be_another_container() -> None:
    assert given(environ={"LONGSTREAM_SIMULATOR_URL": "http://simulator:8000/v1"}).simulated


def test_a_real_key_wins_over_the_simulator() -> None:
    assert list(given(environ=SIMULATED | OPENAI).pools) == ["openai"]


def test_a_bad_simulator_url_is_a_problem() -> None:
    (problem,) = problems_of(environ={"LONGSTREAM_SIMULATOR_URL": "127.0.0.1:8000"})

    assert problem == (
        "key 'simulator': base_url: expected https://host[:port]/path, without user, query or"
        " fragment (LONGSTREAM_SIMULATOR_URL)"
    )
