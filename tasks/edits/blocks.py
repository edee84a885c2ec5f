"""The block form in which files travel to a model and back.

    =====<boundary> file "src/app.py"
    the whole content, line by line
    =====<boundary> end

An answer that changes nothing is one line, `=====<boundary> none`. The boundary has 8 to 16 lower
case hex digits, is the same for the same texts, and no line of any text starts with `=====` and the
boundary. The path is a JSON string. Whether the last line ends with a newline is not part of a
block: the file that was sent knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256

from tasks.edits.source import SourceFile

MARK = "====="
_SHORTEST = 8
_LONGEST = 16


def boundary_for(files: Sequence[SourceFile], instruction: str = "") -> str:
    """The boundary of a request: the same for the same files and instruction."""
    texts = [instruction, *(file.text for file in files)]
    return next(boundary for boundary in _candidates(files) if not _occurs(boundary, texts))


def file_marker(boundary: str, path: str) -> str:
    return f"{MARK}{boundary} file {json.dumps(path, ensure_ascii=False)}"


def end_marker(boundary: str) -> str:
    return f"{MARK}{boundary} end"


def none_marker(boundary: str) -> str:
    return f"{MARK}{boundary} none"


def block(boundary: str, path: str, text: str) -> str:
    """One file as a block, with a newline after its end marker."""
    lines = [file_marker(boundary, path)]
    if text:
        lines.append(text.removesuffix("\n"))
    lines.append(end_marker(boundary))
    return "\n".join(lines) + "\n"


def _candidates(files: Sequence[SourceFile]) -> Iterator[str]:
    digest = sha256()
    for file in files:
        digest.update(file.path.encode() + b"\0" + file.sha256.encode() + b"\0")
    while True:
        digits = digest.hexdigest()
        yield from (digits[:length] for length in range(_SHORTEST, _LONGEST + 1))
        digest = sha256(digits.encode())


def _occurs(boundary: str, texts: Sequence[str]) -> bool:
    start = MARK + boundary
    return any(text.startswith(start) or "\n" + start in text for text in texts)
