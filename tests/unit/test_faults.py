"""What a fault of the store means, whichever version of the server words it."""

from __future__ import annotations

import pytest
import redis
from redis._parsers.base import BaseParser

from worker.store.faults import forbids, passes, words_of

#: As servers before version 7 wrap what goes wrong inside a script.
WRAPPED = "ERR Error running script (call to f_0a1b2c): @user_script:12: @user_script: 12: "

SOON = [
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "MISCONF Redis is configured to save RDB snapshots, but it is unable to persist on disk.",
    "NOREPLICAS Not enough good replicas to write.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN The cluster is down",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "UNBLOCKED force unblock from blocking operation, instance state changed",
]
SHUT_OUT = [
    "NOPERM User default has no permissions to run the 'xadd' command",
    "NOPERM ACL failure in script: User default has no permissions to run the 'xadd' command",
    "ERR ACL failure in script: User default has no permissions to run the 'xadd' command script",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "ERR The user executing the script can't run this command or subcommand script: 0a1b",
]
FOR_GOOD = [
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR Error running script (call to f_0a1b2c): @user_script:3: attempt to index a nil value",
    "ERR user_script:3: attempt to index local 'last' (a nil value) script: 0a1b",
    "ERR unknown command 'XADD', with args beginning with: 'ls:{j}:log' 'a secret' ",
]


def replies(said: str) -> list[Exception]:
    """The error as clients get it, from one parser or another."""
    error = BaseParser.parse_error(said)
    assert isinstance(error, Exception)
    return [error, redis.ResponseError(said)] if said.startswith("ERR ") else [error]


@pytest.mark.parametrize(
    "said", [*SOON, *(WRAPPED + said for said in SOON), WRAPPED + "-" + SOON[0]]
)
def test_what_passes_is_waited_for(said: str) -> None:
    assert all(map(passes, replies(said)))
    assert not any(map(forbids, replies(said)))


@pytest.mark.parametrize("said", [*SHUT_OUT, WRAPPED + SHUT_OUT[0], WRAPPED + SHUT_OUT[-1]])
def test_an_operator_must_let_us_in(said: str) -> None:
    assert all(map(forbids, replies(said)))
    assert not any(map(passes, replies(said)))


@pytest.mark.parametrize("said", [*FOR_GOOD, WRAPPED + FOR_GOOD[0]])
def test_what_is_for_good_is_neither(said: str) -> None:
    assert not any(map(passes, replies(said)))
    assert not any(map(forbids, replies(said)))


def test_a_lost_connection_passes() -> None:
    assert passes(redis.ConnectionError("refused"))
    assert passes(ConnectionResetError())


def test_what_others_say_is_not_repeated() -> None:
    assert words_of(ValueError("not JSON: a secret")) == "ValueError"


def test_the_arguments_of_a_command_are_not_repeated() -> None:
    for error in replies(FOR_GOOD[-1]):
        assert words_of(error).endswith("unknown command 'XADD'")
