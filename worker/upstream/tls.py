"""Which certificate authorities are trusted: the system's, and everything that was added.

`SSL_CERT_FILE`, `SSL_CERT_DIR`, `REQUESTS_CA_BUNDLE` and the `ca_bundle` setting add roots and
never replace any. Verification cannot be turned off.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import certifi

from settings.errors import SettingsError

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


def ssl_context(ca_bundle: str | None = None) -> ssl.SSLContext:
    """A context that trusts the system and what was added to it."""
    context = ssl.create_default_context(cafile=_system_file(), capath=_system_directory())
    for origin, path in _added(ca_bundle):
        _load(context, origin, path)
    return context


def _system_file() -> str:
    """The system's roots, not what SSL_CERT_FILE puts in their place; else the bundled ones."""
    system = ssl.get_default_verify_paths().openssl_cafile
    return system if Path(system).is_file() else certifi.where()


def _system_directory() -> str | None:
    system = ssl.get_default_verify_paths().openssl_capath
    return system if Path(system).is_dir() else None


def _added(ca_bundle: str | None) -> Iterator[tuple[str, Path]]:
    if ca_bundle:
        yield "ca_bundle", Path(ca_bundle)
    for name in _VARIABLES:
        if value := os.environ.get(name):
            yield name, Path(value)


def _load(context: ssl.SSLContext, origin: str, path: Path) -> None:
    if not path.exists():
        raise SettingsError([f"{origin}: no such file or directory: {path}"])
    try:
        if path.is_dir():
            context.load_verify_locations(capath=str(path))
        else:
            context.load_verify_locations(cafile=str(path))
    except (ssl.SSLError, OSError) as error:
        raise SettingsError([f"{origin}: no certificates can be read from {path}"]) from error
