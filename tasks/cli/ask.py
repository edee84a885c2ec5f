"""`longstream ask`: a plain generation."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Any

import click

from tasks.cli.terms import Asked, named, with_terms

_EPILOG = """\b
Examples:
  longstream ask "Why is the sky blue?"
  git diff | longstream ask - --system "Review this change." --effort high
  longstream ask "Summarise this: $(cat notes.md)" > summary.md
  job=$(longstream ask "..." --detach); longstream tail $job
  longstream ask - --id review-$SHA --deadline 15m --on-interrupt fail < prompt.txt

\b
Exit codes:
  0 completed   1 failed   2 usage   3 incomplete   4 cancelled   130 Ctrl-C
"""

#: As much as the gateway takes, unless told otherwise.
_MOST_BYTES = 16 * 2**20
_READ_BYTES = 2**16

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@click.command(epilog=_EPILOG)
@click.argument("prompt")
@click.option("--model", default="", callback=named, help="The model; default: the settings'.")
@click.option("--effort", type=click.Choice(EFFORTS), help="Reasoning effort; default: low.")
@click.option("--system", help="A system message.")
@click.option("--max-output-tokens", type=click.IntRange(min=1), help="Stop at this length.")
@click.option("--inline-thinking", is_flag=True, help="The model thinks aloud in <think> tags.")
@with_terms
@click.option("--dry-run", is_flag=True, help="Say which model would answer, and why; ask nothing.")
@click.option("--detach", is_flag=True, help="Print the job id and return.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(
    prompt: str,
    model: str,
    effort: str | None,
    system: str | None,
    max_output_tokens: int | None,
    inline_thinking: bool,
    dry_run: bool,
    detach: bool,
    as_json: bool,
    asked: Asked,
) -> None:
    """Answer PROMPT, or what stands on stdin when PROMPT is -.

    The answer is shown as it comes. Ctrl-C leaves the job running and prints the command that
    goes on reading; a detached job is read with `longstream tail`.
    """
    if prompt == "-":
        prompt = _standard_input()
    if not prompt.strip():
        raise click.UsageError("the prompt is empty: say what to answer")

    from settings import load
    from settings.routing import AUTO
    from tasks import jobs
    from tasks.cli.prepare import prepare, say, utf8
    from tasks.cli.routes import told
    from tasks.submitting import routed

    utf8("prompt", prompt)
    utf8("system message", system or "")
    request: dict[str, Any] = {
        "model": model,
        "effort": effort,
        "system": system,
        "max_output_tokens": max_output_tokens,
        "inline_thinking": inline_thinking,
    }
    if dry_run:
        settings = load()
        say(told(routed(settings, "tasks.generate", (prompt,), request), settings))
        return
    settings = prepare(serving=True)
    if AUTO in (model, settings.model):
        say(told(jobs.route("tasks.generate", prompt, **request), settings))
    job_id = jobs.submit(
        "tasks.generate", prompt, job_id=asked.job_id, terms=asked.terms(), **request
    )
    if asked.job_id is not None:
        _told_if_another(job_id, prompt)
    if detach:
        click.echo(job_id)
        return
    # After the submit: the worker begins while this is loaded.
    from tasks.cli.follow import conclude, follow, sink_for

    simulated = settings.simulated
    end = follow(job_id, "0-0", sink_for(json=as_json, simulated=simulated))
    sys.exit(conclude(end, job_id, simulated=simulated))


def _told_if_another(job_id: str, prompt: str) -> None:
    """The same id is the same job, whatever was asked this time; silence would pass its answer off
    as the answer to this prompt."""
    from tasks import jobs
    from tasks.cli.prepare import say

    _, args, _ = jobs.arguments(job_id)
    if args != [prompt]:
        say(
            f"job {job_id} was asked something else before, and this is its answer; another --id "
            "asks this"
        )


def _standard_input() -> str:
    """All of it. Raises UsageError as soon as it can be no prompt: stdin may have no end."""
    if sys.stdin.isatty():
        click.echo("longstream: the prompt ends with Ctrl-D", err=True)
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    pieces: list[str] = []
    taken = 0
    try:
        while piece := os.read(sys.stdin.fileno(), _READ_BYTES):
            pieces.append(decoder.decode(piece))
            taken += len(piece)
            if taken > _MOST_BYTES:
                raise click.UsageError(
                    f"stdin has more than {_MOST_BYTES:,} bytes: no model takes such a prompt"
                )
        pieces.append(decoder.decode(b"", final=True))
    except UnicodeDecodeError as error:
        at = taken + error.start
        raise click.UsageError(f"stdin is not UTF-8 text (near byte {at:,})") from error
    return "".join(pieces)
