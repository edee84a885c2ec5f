"""The exit codes, one meaning each."""

from __future__ import annotations

FAILED = 1
USAGE = 2
#: Ctrl-C, as shells count it.
INTERRUPTED = 130
#: SIGTERM, in the same way.
TERMINATED = 143

#: By the outcome of a job; what is not here has failed.
OUTCOMES = {"completed": 0, "incomplete": 3, "filtered": 3, "cancelled": 4}
