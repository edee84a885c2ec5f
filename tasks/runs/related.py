"""Which files have to do with each other: one imports the other, they lie in one directory, their
directories are neighbours. Imports are read from Python and from JavaScript by what they look like;
a name that several files could have relates nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from tasks.edits.source import SourceFile

#: A file that fits nowhere beside the last one may still fit beside one of these.
_NEIGHBOURS = 8
_PYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import|import[ \t]+([\w., \t]+))", re.M
)
_SCRIPT_IMPORT = re.compile(r"""(?:\bfrom|\brequire\(|\bimport\(?)\s*["'](\.{1,2}/[^"'\n]+)["']""")
_SCRIPTS = ("", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".vue", "/index.ts", "/index.js")


def relations(files: Sequence[SourceFile]) -> Iterator[tuple[int, int]]:
    """Pairs of files, the closest first."""
    yield from _imports(files)
    places = sorted(range(len(files)), key=lambda index: _place(files[index].path))
    neighbours = [
        (places[at - back], places[at])
        for at in range(1, len(places))
        for back in range(1, min(at, _NEIGHBOURS) + 1)
    ]
    yield from (p for p in neighbours if _parent(files[p[0]].path) == _parent(files[p[1]].path))
    yield from neighbours


def _place(path: str) -> tuple[str, str]:
    return _parent(path), path


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _imports(files: Sequence[SourceFile]) -> Iterator[tuple[int, int]]:
    paths = {file.path: index for index, file in enumerate(files)}
    modules = _modules(paths)
    for index, file in enumerate(files):
        for name in _names_in(file):
            target = modules.get(name) if file.path.endswith(".py") else _script(file, name, paths)
            if target is not None and target != index:
                yield index, target


def _modules(paths: Mapping[str, int]) -> dict[str, int]:
    """Every dotted name a Python file may be imported by, wherever its root is; names that several
    files could have are nobody's."""
    found: dict[str, int | None] = {}
    for path, index in paths.items():
        if not path.endswith(".py"):
            continue
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        for start in range(len(parts)):
            name = ".".join(parts[start:])
            found[name] = index if name not in found else None
    return {name: index for name, index in found.items() if index is not None}


def _names_in(file: SourceFile) -> Iterator[str]:
    if not file.path.endswith(".py"):
        yield from (match[1] for match in _SCRIPT_IMPORT.finditer(file.text))
        return
    package = _parent(file.path).replace("/", ".").split(".")
    for match in _PYTHON_IMPORT.finditer(file.text):
        for name in (match[1] or match[2]).split(","):
            word = name.split()[0] if name.split() else ""
            dots = len(word) - len(word.lstrip("."))
            if dots:
                word = ".".join([*package[: len(package) - dots + 1], word.lstrip(".")]).strip(".")
            yield word


def _script(file: SourceFile, name: str, paths: Mapping[str, int]) -> int | None:
    parts: list[str] = []
    for part in (PurePosixPath(_parent(file.path)) / name).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    base = "/".join(parts)
    return next((paths[base + end] for end in _SCRIPTS if base + end in paths), None)
