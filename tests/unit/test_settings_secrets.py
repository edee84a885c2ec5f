"""Attacks: every way known to us in which a secret could be shown."""

from __future__ import annotations

import io
import json
import pickle
import tomllib
import traceback
from pathlib import Path

import msgspec
import pytest
from configuration import given as loaded
from hypothesis import given, strategies as st
from msgspec.structs import asdict, replace
from rich.console import Console
from rich.pretty import Pretty

from settings import Secret, Settings, SettingsError, load
from settings.problems import Problems

SECRET = "sk-live-0123456789abcdef"
PASSWORD = "hunter2-hunter2"


def sound() -> Settings:
    return loaded(
        f"""
        redis_url = "redis://:{PASSWORD}@h/0"
        [[pools.default.keys]]
        alias = "main"
        provider = "openai"
        secret = "{SECRET}"
        """
    )


def text_of(error: BaseException) -> str:
    """Everything a log could make of `error`, chained errors and their attributes included."""
    parts = []
    seen: BaseException | None = error
    while seen is not None:
        parts += [str(seen), repr(seen), repr(seen.args), repr(getattr(seen, "__dict__", ""))]
        seen = seen.__cause__ or seen.__context__
    return "\n".join([*parts, *traceback.format_exception(error)])


def test_no_way_of_printing_settings_shows_a_secret() -> None:
    settings = sound()
    pool = settings.pools["default"]
    secret = pool.keys[0].secret

    for part in (settings, pool, pool.keys[0], pool.keys, secret, [secret], settings.pools):
        for text in (repr(part), str(part), f"{part}", rich_text(part)):
            assert SECRET not in text
            assert PASSWORD not in text
    assert SECRET not in repr(asdict(settings))
    assert SECRET not in settings.describe()
    assert PASSWORD not in settings.describe()
    with pytest.raises(TypeError):
        json.dumps(asdict(settings))
    with pytest.raises(TypeError):
        msgspec.json.encode(settings)


def rich_text(value: object) -> str:
    """`value` as a rich console prints it, in a traceback with local variables for example."""
    console = Console(file=io.StringIO(), width=500)
    console.print(value)
    with console.capture() as capture:
        console.print(Pretty(value))
    return capture.get()


def test_a_changed_copy_hides_its_password_as_well() -> None:
    copy = replace(Settings(), redis_url=f"redis://:{PASSWORD}@h")

    assert copy.redis_url == f"redis://:{PASSWORD}@h"
    for text in (repr(copy), str(copy), copy.describe(), rich_text(copy)):
        assert PASSWORD not in text


def test_settings_still_hold_what_they_hide() -> None:
    settings = pickle.loads(pickle.dumps(sound()))

    assert settings.pools["default"].keys[0].secret.get_secret_value() == SECRET
    assert settings.redis_url == f"redis://:{PASSWORD}@h/0"


def test_the_description_is_toml_and_complete_but_for_secrets() -> None:
    settings = sound()

    values = tomllib.loads(settings.describe())

    assert values["redis_url"] == "redis://***@h/0"
    given = {name: value for name, value in asdict(settings.worker).items() if value is not None}
    assert values["worker"] == given
    assert values["pools"]["default"]["keys"][0]["secret"] == "***"


def test_secrets_are_compared_by_what_they_hold() -> None:
    assert Secret(SECRET) == Secret(SECRET) != Secret("other")
    assert Secret(SECRET) != SECRET
    assert len({Secret(SECRET), Secret(SECRET)}) == 1


#: Where a secret has no business, and gets pasted anyway.
WRONG_PLACES = [
    'alias = "{s}"\nprovider = "openai"\nsecret = "{s}"',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\naccount = "{s}"',
    'alias = "x"\nprovider = "openai"\nsecret_env = "{s}"',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\nsecret_env = "{s}"',
    'alias = "x"\nprovider = "{s}"\nsecret = "{s}"',
    'alias = "x"\nprovider = "{s}"\nsecret = "openai"',
    'alias = "x"\nprovider = "openai"\nbase_url = "{s}"\nsecret = "y"',
    'alias = "x"\nprovider = "openai"\nbase_url = "https://{s}@h/v1"\nsecret = "y"',
    'alias = "x"\nprovider = "openai"\nbase_url = "https://h/v1?k={s}"\nsecret = "y"',
    'alias = "x"\nprovider = "generic"\nbase_url = "https://h/{s}/v1"\nsecret = "{s}"',
    'alias = "x"\nprovider = "openai"\nsecret = "{s} "',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}\\n{s}"',
    'alias = "x"\nprovider = "openai"\nsecret = ["{s}"]',
    'alias = "x"\nprovider = "openai"\nsecret = {{ value = "{s}" }}',
    'alias = ["{s}"]\nprovider = "openai"\nsecret = "y"',
    'alias = "x"\nprovider = ["{s}"]\nsecret = "{s}"',
    'alias = "x"\nprovider = "openai"\nsecret = {s}',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\nsecret = "{s}"',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\n[worker]\nconcurrency = "{s}"',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\n[worker]\n{s} = 1',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\n[pools.{s}]',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\n[accounts.{s}]',
    'alias = "x"\nprovider = "openai"\nsecret = "{s}"\n[pools.default]\nmodels = ["{s}"]',
    '"{s}" = 1\nalias = "x"\nprovider = "openai"\nsecret = "{s}"',
    'alias = "{s}"\nprovider = "openai"\nsecret_env = "GOOD_NAME"',
    'alias = "{s}"\nprovider = "opnai"\nsecret_env = "GOOD_NAME"',
    'alias = "{s}"\nprovider = "openai"\nsecret = "{s}"\nsecret_env = "GOOD_NAME"',
    'alias = "x"\nprovider = "openai"\nsecret_env = "GOOD_NAME"\naccount = "{s}"',
]


@pytest.mark.parametrize("body", WRONG_PLACES)
def test_a_secret_in_the_wrong_place_is_reported_and_not_shown(body: str) -> None:
    toml = "[[pools.default.keys]]\n" + body.format(s=SECRET)

    with pytest.raises(SettingsError) as caught:
        loaded(toml, {"GOOD_NAME": SECRET})

    assert SECRET not in text_of(caught.value)
    assert "0123456789abcdef" not in text_of(caught.value)


@pytest.mark.parametrize(
    "environ",
    [
        {"LONGSTREAM_REDIS_URL": SECRET},
        {"LONGSTREAM_REDIS_URL": f"postgres://u:{SECRET}@h"},
        {"LONGSTREAM_REDIS_URL": f"{SECRET}://h"},
        {"LONGSTREAM_REDIS_URL": f"redis://:{SECRET}/@h"},
        {"LONGSTREAM_BROKER_URL": f"redis://:{SECRET}@h"},
        {"LONGSTREAM_WORKER__CONCURRENCY": SECRET},
        {"LONGSTREAM_SIMULATOR_URL": f"http://{SECRET}@h"},
        {"OPENAI_API_KEY": SECRET},
        {"OPENAI_BASE_URL": SECRET},
        {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": SECRET},
        {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": f"https://h/{SECRET}"},
        {"OPENAI_API_KEY": SECRET, "LONGSTREAM_CONFIG": SECRET},
        {"OPENAI_API_KEY": SECRET, "LONGSTREAM_CA_BUNDLE": SECRET},
        {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": "https://h", "LONGSTREAM_MODEL": SECRET},
        {"OPENAI_API_KEY": f"{SECRET}\r\nX: y", "OPENAI_BASE_URL": "https://h"},
    ],
)
def test_no_variable_is_shown_that_may_be_a_secret(environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(environ=environ)

    assert SECRET not in text_of(caught.value)


@given(st.text(st.characters(codec="utf-8"), min_size=8).filter(lambda text: text.strip()))
def test_any_text_as_a_secret_is_taken_or_refused_but_never_shown(word: str) -> None:
    secret = f"<{word}>"
    environ = {"OPENAI_API_KEY": secret, "OPENAI_BASE_URL": "https://h/v1"}
    try:
        settings = load(environ, Path("/nowhere"))
    except SettingsError as error:
        shown = text_of(error)
    else:
        shown = settings.describe() + repr(settings)

    assert secret not in shown


def test_collected_problems_do_not_show_what_they_hide() -> None:
    problems = Problems()
    problems.hide(SECRET)
    problems.add(f"key {SECRET!r}: wrong")

    assert SECRET not in repr(problems)
    with pytest.raises(SettingsError, match=r"^key '\*\*\*': wrong$"):
        problems.raise_any()
