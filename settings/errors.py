"""The root of every error longstream raises on purpose, and the settings branch of the tree.

LongstreamError
└── SettingsError      everything wrong with the configuration, reported together
"""

from __future__ import annotations

from collections.abc import Sequence


class LongstreamError(Exception):
    """Something longstream can explain in one line. `str(error)` is that line."""


class SettingsError(LongstreamError):
    """The configuration cannot be used. `problems` names each fault and the way out."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))
