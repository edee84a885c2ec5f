from __future__ import annotations

import pytest
from configuration import ONE_KEY, given, problems_of


def key(**fields: str | int | None) -> str:
    """A file with one key, made of sound fields and `fields` instead; None leaves one out."""
    values = {"alias": "main", "provider": "openai", "secret": "sk-0123456789"} | fields
    lines = [f"{name} = {value!r}" for name, value in values.items() if value is not None]
    return "\n".join(["[[pools.default.keys]]", *lines])


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        (key(alias=None), "pools.default.keys[1]: has no alias"),
        (key(provider=None), "key 'main': has no provider"),
        (key(provider="opnai"), "key 'main': unknown provider, did you mean 'openai'? (one of"),
        (key(provider="generic"), "key 'main': has no base_url, and the provider 'generic' has"),
        (key(secret=None), "key 'main': needs exactly one of secret and secret_env"),
        (key(secret_env="X_Y"), "key 'main': needs exactly one of secret and secret_env"),
        (key(secret=""), "key 'main': secret: expected a text that is not empty"),
        (key(secret=12345678), "key 'main': secret: expected a text that is not empty"),
        (key(alias="a b"), "pools.default.keys[1]: alias: expected a name of letters"),
        (key(account="a b"), "key 'main': account: expected a name of letters"),
        (key(account=1), "key 'main': account: expected a name of letters"),
        (key(base_url=1), "key 'main': base_url: expected a text that is not empty"),
        (key(api="grpc"), "key 'main': api: expected one of chat, responses, background"),
        (key(sercet="x"), "key 'main'.sercet: unknown setting, did you mean 'secret'?"),
    ],
)
def test_a_faulty_key_is_reported_by_its_alias(toml: str, problem: str) -> None:
    (found,) = problems_of(toml)

    assert found.startswith(problem)
    assert found.endswith("(longstream.toml)")


@pytest.mark.parametrize(
    ("api", "dialect", "background"),
    [(None, "chat", False), ("responses", "responses", False), ("background", "responses", True)],
)
def test_a_key_speaks_the_api_it_is_given(api: str | None, dialect: str, background: bool) -> None:
    found = given(key(api=api)).key("main")

    assert found is not None
    assert (found.profile.dialect, found.profile.background) == (dialect, background)


def test_an_unknown_provider_is_reported_with_all_profiles() -> None:
    (problem,) = problems_of(key(provider="azure"))

    assert "one of holysheep, openai, deepseek, openrouter, generic, simulator" in problem


@pytest.mark.parametrize("environ", [{}, {"MY_KEY": ""}, {"MY_KEY": " "}])
def test_a_variable_that_is_not_set_is_reported_by_alias_and_name(environ: dict[str, str]) -> None:
    assert problems_of(key(secret=None, secret_env="MY_KEY"), environ) == (
        "key 'main': the variable MY_KEY is not set or empty (longstream.toml)",
    )


@pytest.mark.parametrize(
    "secret", ["sk 1", "sk-1\n", "\tsk", "sk-\x00", "sk-日本", "sk-é", "\x7f", "sk\u00a0"]
)
def test_a_secret_no_header_can_carry_is_refused_by_alias(secret: str) -> None:
    assert problems_of(key(secret=None, secret_env="MY_KEY"), {"MY_KEY": secret}) == (
        (
            "key 'main': its secret holds white space or characters that no HTTP header can carry"
            " (longstream.toml)"
        ),
    )


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/v1",
        "api.openai.com/v1",
        "https://",
        "https:///v1",
        "https://user@h/v1",
        "https://h/v1?key=1",
        "https://h/v1#x",
        "https://h:99999/v1",
        "https://h:0/v1",
        "https://h:x/v1",
        "https://[::1/v1",
        "https://h h/v1",
        "https://h\\@127.0.0.1/v1",
        "https://-h/v1",
        "https://ü.example/v1",
    ],
)
def test_a_base_url_of_the_wrong_form_is_refused(url: str) -> None:
    (problem,) = problems_of(key(provider="generic", base_url=url))

    assert problem == (
        "key 'main': base_url: expected https://host[:port]/path, without user, query or fragment"
        " (longstream.toml)"
    )


@pytest.mark.parametrize(
    "host", ["example.com", "10.0.0.1", "localhost.example.com", "127.0.0.1.nip.io", "[::2]", "0"]
)
def test_a_secret_never_travels_in_clear_to_another_host(host: str) -> None:
    (problem,) = problems_of(key(provider="generic", base_url=f"http://{host}/v1"))

    assert "base_url: http would send the secret in clear, use https" in problem


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9", "[::1]"])
@pytest.mark.parametrize("provider", ["generic", "simulator", "openai"])
def test_plain_http_is_fine_on_loopback(provider: str, host: str) -> None:
    settings = given(key(provider=provider, base_url=f"http://{host}/v1"))

    assert settings.pools["default"].keys[0].base_url == f"http://{host}/v1"


def test_a_real_secret_for_the_simulator_on_another_host_is_refused() -> None:
    elsewhere = {"provider": "simulator", "base_url": "http://simulator:8000/v1"}

    assert problems_of(key(**elsewhere))
    assert not problems_of(key(**elsewhere, secret="simulated"))


def test_a_key_is_not_sent_to_another_providers_address() -> None:
    assert problems_of(key(provider="openai", base_url="https://API.holysheep.ai/v1")) == (
        (
            "key 'main': base_url: this is the address of holysheep, which must not receive"
            " a key of openai (longstream.toml)"
        ),
    )
    assert not problems_of(key(provider="generic", base_url="https://api.holysheep.ai/v1"))


def test_all_faults_of_a_key_are_reported_together() -> None:
    problems = problems_of(
        key(alias="a b", provider="azure", secret_env="X_Y", account="", base="x")
    )

    assert len(problems) == 5


def test_a_sound_key_has_the_profile_of_its_provider() -> None:
    (found,) = given(ONE_KEY).pools["default"].keys

    assert found.profile.output_limit == "max_completion_tokens"
