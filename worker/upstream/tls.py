"""Which certificate authorities are trusted: the system's, and everything that was added.

`SSL_CERT_FILE`, `SSL_CERT_DIR`, `REQUESTS_CA_BUNDLE` and the `ca_bundle` setting add roots and
never replace any. Verification cannot be turned off.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import certifi

from settings.errors import SettingsError

_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_DIRECTORIES = "SSL_CERT_DIR"

#: How OpenSSL finds a certificate in a directory; other names it never looks at.
_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")


def ssl_context(ca_bundle: str | None = None) -> ssl.SSLContext:
    """A context that trusts the system and what was added to it."""
    context = ssl.create_default_context(cafile=_system_file(), capath=_system_directory())
    for origin, path in _added(ca_bundle):
        if not path.exists():
            raise SettingsError([f"{origin}: no such file or directory: {path}"])
        try:
            _load(context, path)
        except (ssl.SSLError, OSError) as error:
            raise SettingsError([f"{origin}: no certificates can be read from {path}"]) from error
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
    for name in _FILES:
        if value := os.environ.get(name):
            yield name, Path(value)
    for value in os.environ.get(_DIRECTORIES, "").split(os.pathsep):
        if value:
            yield _DIRECTORIES, Path(value)


def _load(context: ssl.SSLContext, path: Path) -> None:
    if not path.is_dir():
        context.load_verify_locations(cafile=path)
        return
    names = [entry.name for entry in path.iterdir()]
    context.load_verify_locations(capath=path)
    if not any(_HASHED.fullmatch(name) for name in names):
        for name in sorted(names):
            if name.endswith((".pem", ".crt")):
                context.load_verify_locations(cafile=path / name)
