"""What a pool offers the scripts: patterns, periods, fingerprints; and no secret."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, strategies as st
from lupa.lua51 import LuaRuntime

from settings.model import Account, Family, Pool
from tests.harness.lines import key
from worker.admission.offers import lua_pattern, offered, packed

LUA_FIND = LuaRuntime().eval("function(text, pattern) return string.find(text, pattern) ~= nil end")

patterns = st.text("ab-.%*?[]!^$(+", min_size=1, max_size=8)


@given(patterns, st.text("ab-.%[]!^$(+", max_size=8))
def test_a_shell_pattern_means_the_same_in_lua(pattern: str, text: str) -> None:
    if "[" in pattern:
        return
    assert LUA_FIND(text, lua_pattern(pattern)) == fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("gpt-[45]*", "gpt-5.5"), ("gpt-[45]*", "gpt-3"), ("[!a]x", "bx"), ("[!a]x", "ax"),
     ("a[", "a["), ("[]", "[]"), ("[%]", "%"), ("m[.]", "m."), ("m[.]", "mx")],
)  # fmt: skip
def test_a_set_of_characters_means_the_same_in_lua(pattern: str, text: str) -> None:
    assert LUA_FIND(text, lua_pattern(pattern)) == fnmatchcase(text, pattern)


def test_slices_keep_a_sixth_of_the_limit_in_ten_seconds() -> None:
    account = Account(name="a", requests_per_minute=60, refill="slices")
    (owner,) = offered(Pool(name="p", keys=(key("a"),)), {"a": account}).accounts
    (scope,) = owner.scopes
    assert (scope.requests, scope.period) == (10, 10_000)


def test_a_family_stands_behind_its_account() -> None:
    account = Account(name="a", streams=9, families=(Family(models="m*", streams=2),))
    (owner,) = offered(Pool(name="p", keys=(key("a"),)), {"a": account}).accounts
    assert [(scope.name, scope.models, scope.streams) for scope in owner.scopes] == [
        ("a", "", 9),
        ("a/m*", "^m.*$", 2),
    ]


def test_a_secret_is_told_from_another_and_not_given_away() -> None:
    one, two = (packed(Pool(name="p", keys=(key("a", secret=s),)), {}) for s in ("sk-1", "sk-2"))
    assert one != two
    assert b"sk-1" not in one
