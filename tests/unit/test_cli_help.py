"""Every command explains itself: what each option is for, and examples that can be typed."""

from __future__ import annotations

import click
import pytest

from tests.harness.commands import called, every_command, problem

COMMANDS = dict(every_command())
ALL = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


@ALL
def test_a_command_has_examples_that_can_be_typed(path: tuple[str, ...]) -> None:
    epilog = COMMANDS[path].epilog or ""
    assert "Examples:" in epilog
    calls = [call for line in epilog.splitlines() for call in called(line)]
    assert any(call[: len(path)] == list(path) for call in calls)
    assert [problem(call) for call in calls if problem(call)] == []


@ALL
def test_every_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    options = [each for each in COMMANDS[path].params if isinstance(each, click.Option)]
    assert [option.name for option in options if not option.help] == []


@ALL
def test_no_line_of_a_list_of_commands_is_cut(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=" ".join(path), max_content_width=80)
        _, _, listed = command.get_help(context).partition("Commands:")
        assert "..." not in listed.partition("Examples:")[0]


@pytest.mark.parametrize(
    ("path", "option"),
    [
        (path, option.opts[-1])
        for path, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option)
        and isinstance(option.type, (click.types.StringParamType, click.Path))
        and option.opts[-1] not in ("--name", "--system", "--message", "--check", "--from")
    ],
    ids=str,
)
def test_an_option_given_empty_is_a_mistake_and_not_the_default(
    path: tuple[str, ...], option: str
) -> None:
    """`--tenant "$TENANT"` without that variable must not make a token for everybody."""
    with pytest.raises(click.UsageError):
        COMMANDS[path].make_context(path[-1], [option, "", "x"])
