"""What Redis says is told with the way out, and never as a traceback."""

from __future__ import annotations

import pytest
from redis.exceptions import OutOfMemoryError, ReadOnlyError

from tasks.cli.group import _explained


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
            "Redis is full: free memory or raise maxmemory, then run the command again",
        ),
        (
            ReadOnlyError("You can't write here."),
            "Redis failed: You can't write here; run the command again, or ask `longstream doctor`",
        ),
    ],
)
def test_a_store_that_refuses_is_told_in_one_line(
    error: Exception, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _explained(error) == 1
    assert capsys.readouterr().err == f"longstream: {says}\n"
