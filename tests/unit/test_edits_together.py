"""From files to a reviewed change and back to files, with everything a file can be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from tasks.edits.answer import AnswerParser
from tasks.edits.apply import Applied
from tasks.edits.blocks import boundary_for
from tasks.edits.checks import Result, check
from tasks.edits.prompt import messages_for
from tasks.edits.source import SourceFile, read_sources
from tests.harness.edits import apply, patch, verdicts, write_out

WORDS = "use names that say something"
FILES = {
    "src/plain.py": b"x = 1\ny = 2\n",
    "src/crlf.py": b"x = 1\r\ny = 2\r\n",
    "cr.txt": b"x\ry\r",
    "bom and crlf.py": b"\xef\xbb\xbfx = 1\r\n",
    "no final newline.py": b"x = 1\nif x:\n    y = 2",
    "latin.py": b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
    'qu"o\\te\n.md': "naïve → ```\n===== end\n".encode(),
    "naïve/日本.txt": b"\n\n",
}


def model(request: str) -> str:
    """An answer to `request`: every file it holds gets one more line at the top and the bottom."""
    pattern = r"^(=====([0-9a-f]{8,16}) file .*)\n((?:.*\n)*?)(=====\2 end)$"
    blocks = re.findall(pattern, request, re.MULTILINE)
    changed = [
        f"{start}\n{content if 'coding' in content else '# top' + chr(10) + content}# end\n{end}"
        for start, _, content, end in blocks
    ]
    return "Here you are:\n" + "\n".join(changed)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def reviewed(root: Path) -> Result:
    files = read_sources(list(FILES), root, 1000)
    # The files travel as JSON in the arguments of a job.
    files = msgspec.json.decode(msgspec.json.encode(files), type=list[SourceFile])
    parser = AnswerParser(files, boundary_for(files, WORDS))
    for character in model(messages_for(files, WORDS)[1].content):
        parser.feed(character)
    return check(files, parser.close(), root)


def expected(data: bytes) -> bytes:
    """What the model's two lines make of a file that keeps everything else."""
    ending = next((e for e in (b"\r\n", b"\r") if e in data), b"\n")
    bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    top = b"" if b"coding" in data else b"# top" + ending
    body = data.removeprefix(bom)
    bottom = b"# end" + ending if body.endswith(ending) else ending + b"# end"
    return bom + top + body + bottom


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in FILES}


def test_every_kind_of_file_is_changed_and_keeps_its_form(root: Path, tmp_path: Path) -> None:
    result = reviewed(root)

    assert {verdict.kind for verdict in verdicts(result)} == {"changed"}
    assert write_out(result, tmp_path / "out") == [Applied(name) for name in FILES]
    assert apply(result, root) == [Applied(name) for name in FILES]
    assert contents(root) == {name: expected(data) for name, data in FILES.items()}
    assert contents(tmp_path / "out") == contents(root)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_applies_the_patch_to_the_same_bytes(root: Path) -> None:
    given = patch(reviewed(root))
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for command in (["init", "--quiet"], ["apply", "--check", "-"], ["apply", "-"]):
        run = subprocess.run(
            ["git", *command],
            cwd=root,
            input=given,
            capture_output=True,
            check=False,
            timeout=30,
            env=environment,
        )
        assert run.returncode == 0, run.stderr

    assert contents(root) == {name: expected(data) for name, data in FILES.items()}
