"""A unified diff that `git apply` accepts, as bytes: a file keeps its encoding and line endings.

Lines end at `\\n` alone, as git sees them, so the `\\r` of a CRLF file is part of its lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks.edits.matching import LineMatcher

_ESCAPES = {
    0x07: "\\a",
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0B: "\\v",
    0x0C: "\\f",
    0x0D: "\\r",
    0x22: '\\"',
    0x5C: "\\\\",
}
_CONTEXT_LINES = 3
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified_diff(path: str, before: bytes, after: bytes) -> bytes:
    """The change of one file, or nothing when there is none."""
    if before == after:
        return b""
    old, new = git_quoted(f"a/{path}"), git_quoted(f"b/{path}")
    header = f"diff --git {old} {new}\n--- {_ended(old)}\n+++ {_ended(new)}\n"
    return header.encode() + b"".join(_hunks(before, after))


def git_quoted(path: str) -> str:
    """The path as git writes it: in quotes with octal bytes when it has anything unusual."""
    data = path.encode()
    if all(0x20 <= byte < 0x7F and byte not in _ESCAPES for byte in data):
        return path
    return '"' + "".join(_escaped(byte) for byte in data) + '"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def _ended(name: str) -> str:
    # Readers of diffs take a space for the end of the name, unless a tab ends it.
    return name + "\t" if " " in name else name


def _hunks(before: bytes, after: bytes) -> Iterator[bytes]:
    old, new = _lines(before), _lines(after)
    for group in LineMatcher(old, new).get_grouped_opcodes(_CONTEXT_LINES):
        (_, old_low, _, new_low, _), (_, _, old_high, _, new_high) = group[0], group[-1]
        spans = f"-{_span(old_low, old_high)} +{_span(new_low, new_high)}"
        yield f"@@ {spans} @@\n".encode()
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield _marked(" ", old[i:i_end])
            else:
                yield _marked("-", old[i:i_end]) + _marked("+", new[j:j_end])


def _span(low: int, high: int) -> str:
    size = high - low
    if size == 1:
        return str(low + 1)
    # An empty span names the line before it.
    return f"{low + 1 if size else low},{size}"


def _marked(mark: str, lines: list[str]) -> bytes:
    ended = (line if line.endswith("\n") else line + _NO_NEWLINE for line in lines)
    return "".join(mark + line for line in ended).encode("latin-1")


def _lines(data: bytes) -> list[str]:
    # latin-1 maps every byte to one character and back, whatever the file's encoding is.
    *complete, rest = data.decode("latin-1").split("\n")
    return [line + "\n" for line in complete] + ([rest] if rest else [])
