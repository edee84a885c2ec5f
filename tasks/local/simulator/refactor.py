"""The answer to a refactor request: every file sent comes back with one comment more.

A file travels as a block between two marker lines that share a boundary chosen by the sender:

    =====0a1b2c3d file "src/app.py"
    ...whole content, line by line...
    =====0a1b2c3d end

What compiled before still compiles: a comment line is put after the lines that must stay first
(shebang, encoding, XML declaration), in the syntax of the file's extension.
"""

from __future__ import annotations

import re

import msgspec

#: How much of the instruction the comment repeats.
INSTRUCTION_CHARS = 60

_BLOCK = re.compile(
    r'^=====([0-9a-f]{8,16}) file ("(?:[^"\\\n]|\\.)*")\n(.*?)^=====\1 end$',
    re.DOTALL | re.MULTILINE,
)
_FIRST = re.compile(r"^#!|^<\?xml", re.ASCII)
_ENCODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", re.ASCII)
_OPENERS = {
    **dict.fromkeys(("js", "ts", "jsx", "tsx", "go", "rs", "c", "h", "cpp", "java", "cs"), "//"),
    **dict.fromkeys(("sql", "lua"), "--"),
    **dict.fromkeys(("html", "md", "xml", "svg"), "<!--"),
}


class Block(msgspec.Struct, frozen=True):
    """One file of a request; `path` is the JSON string as it was sent."""

    boundary: str
    path: str
    content: str


def blocks(message: str) -> tuple[Block, ...]:
    """The file blocks of a user message, in order."""
    return tuple(Block(*match.groups()) for match in _BLOCK.finditer(message))


def refactored(message: str) -> str | None:
    """The whole answer to a refactor request, or None when the message carries no file."""
    found = blocks(message)
    if not found:
        return None
    start = _BLOCK.search(message)
    assert start is not None
    instruction = one_line(message[: start.start()])
    count = "1 file" if len(found) == 1 else f"{len(found)} files"
    answer = [f"Simulated answer. {count} changed, by one comment each.\n"]
    for block in found:
        content = changed(block.path, block.content, instruction)
        answer.append(
            f"\n====={block.boundary} file {block.path}\n{content}====={block.boundary} end\n"
        )
    return "".join(answer)


def one_line(instruction: str) -> str:
    """The start of the instruction, fit for a one-line comment."""
    words = " ".join(instruction.split())
    return "".join(char for char in words if char.isprintable())[:INSTRUCTION_CHARS].rstrip()


def changed(path: str, content: str, instruction: str) -> str:
    """`content` with the comment put in at the first line that may carry it."""
    mark, content = ("\ufeff", content[1:]) if content.startswith("\ufeff") else ("", content)
    lines = content.split("\n")
    at = _first_free_line(lines)
    end = "\r" if lines[0].endswith("\r") else ""
    return mark + "\n".join([*lines[:at], _comment(path, instruction) + end, *lines[at:]])


def _first_free_line(lines: list[str]) -> int:
    at = 1 if _FIRST.match(lines[0]) else 0
    for index in (1, 0):
        before = lines[index - 1] if index else "#"
        if index < len(lines) and _ENCODING.match(lines[index]) and _is_comment(before):
            return index + 1
    return at


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip(" \t\f").startswith("#")


def _comment(path: str, instruction: str) -> str:
    opener = _OPENERS.get(path.strip('"').rpartition(".")[2].lower(), "#")
    text = f"Simulated refactor: {instruction}".rstrip()
    if opener == "<!--":
        return f"<!-- {text.replace('--', '- -')} -->"
    return f"{opener} {text}"
