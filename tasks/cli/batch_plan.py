"""What a batch would ask, of which model and by which rule, and what its prompts come to."""

from __future__ import annotations

from collections import Counter
from typing import IO

import click

from settings import load
from settings.errors import LongstreamError
from tasks.batches.lines import Fault, read
from tasks.cli.columns import harmless
from tasks.submitting import routed_prompt


def show_plan(requests: IO[bytes]) -> None:
    """One line for each model and rule, then the lines that would have an error."""
    settings = load()
    jobs: Counter[tuple[str, str]] = Counter()
    tokens: Counter[tuple[str, str]] = Counter()
    faults: Counter[str] = Counter()
    for line in read(requests):
        if isinstance(line, Fault):
            faults[line.code] += 1
            continue
        try:
            choice, prompt = routed_prompt(settings, "tasks.batch", (line.url, line.body))
        except LongstreamError:
            faults["not_submitted"] += 1
            continue
        at = choice.model, choice.why
        jobs[at] += 1
        tokens[at] += prompt
    for (model, why), count in jobs.most_common():
        about = f"{tokens[model, why]:,} tokens of prompts, as estimated"
        click.echo(f"{count:,} of {harmless(model)} ({why}): {about}")
    for code, count in faults.most_common():
        click.echo(f"{count:,} with an error: {code}")
