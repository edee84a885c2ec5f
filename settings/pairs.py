"""Keys without a file: the variable pairs, and the simulator's URL.

A key and its URL are only ever read as a pair, so that no key can reach a provider it was not
made for. Half a pair is a problem, and not a default.
"""

from __future__ import annotations

from collections.abc import Mapping

from settings.environment import SIMULATOR_URL
from settings.keys import SIMULATED_SECRET, KeyDraft
from settings.model import SIMULATOR, Key, Pool
from settings.problems import Problems
from settings.profiles import PROFILES
from settings.urls import provider_at

#: Each makes one key of this alias, from NAME_API_KEY and NAME_BASE_URL.
PAIRS = ("openai", "holysheep")


def pools_of_pairs(environ: Mapping[str, str], problems: Problems) -> dict[str, Pool]:
    """One pool of its own for a single pair, one pool named `default` for both."""
    keys = [key for alias in PAIRS if (key := _key(alias, environ, problems)) is not None]
    if not keys:
        return {}
    name = keys[0].alias if len(keys) == 1 else "default"
    return {name: Pool(name=name, keys=tuple(keys))}


def _key(alias: str, environ: Mapping[str, str], problems: Problems) -> Key | None:
    secret_name, url_name = f"{alias.upper()}_API_KEY", f"{alias.upper()}_BASE_URL"
    secret, url = environ.get(secret_name), environ.get(url_name)
    if secret is None and url is None:
        return None
    if secret is None or url is None:
        default = PROFILES[alias].base_url
        missing, there = (
            (f"{url_name} is not: set {url_name}={default}", secret_name)
            if url is None
            else (f"{secret_name} is not: set it to a key made for that URL ({default})", url_name)
        )
        problems.add(f"{there} is set but {missing}, or unset {there}")
        return None
    return KeyDraft(
        who=f"key {alias!r}",
        alias=alias,
        provider=_provider(alias, url),
        base_url=url,
        secret=secret,
        account=alias,
        origin=f"{secret_name}, {url_name}",
    ).checked(problems)


def _provider(alias: str, url: str) -> str:
    """OPENAI_BASE_URL is what every compatible provider tells its users to set."""
    if alias != "openai":
        return alias
    try:
        return provider_at(url) or "generic"
    except ValueError:
        return "generic"


def pools_of_simulator(environ: Mapping[str, str], problems: Problems) -> dict[str, Pool]:
    """The simulator's pool, when its URL is set: the embedded stack does that for itself."""
    url = environ.get(SIMULATOR_URL)
    if url is None:
        return {}
    key = KeyDraft(
        who=f"key {SIMULATOR!r}",
        alias=SIMULATOR,
        provider=SIMULATOR,
        base_url=url,
        secret=SIMULATED_SECRET,
        account=SIMULATOR,
        origin=SIMULATOR_URL,
    ).checked(problems)
    return {} if key is None else {SIMULATOR: Pool(name=SIMULATOR, keys=(key,))}
