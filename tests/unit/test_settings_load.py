from __future__ import annotations

from pathlib import Path

import pytest
from configuration import ONE_KEY, given, problems_of

from settings import Settings, SettingsError, load
from settings.environment import ignored

STREAMS = "a whole number from 1 to 2000"
SECONDS = "a number above 0, at most 86400"
BYTES = "a whole number from 1 to 1073741824"


def test_nothing_configured_gives_the_defaults_and_no_pools() -> None:
    assert given() == Settings()


def test_the_process_environment_and_folder_are_read_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGSTREAM_WORKER__CONCURRENCY", "7")
    (tmp_path / "longstream.toml").write_text('model = "from-file"')

    settings = load()

    assert (settings.worker.concurrency, settings.model) == (7, "from-file")


def test_a_variable_wins_over_the_file() -> None:
    settings = given(
        'model = "from-file"\n[worker]\nconcurrency = 3\nlease_s = 20',
        {"LONGSTREAM_MODEL": "from-variable", "LONGSTREAM_WORKER__CONCURRENCY": "4"},
    )

    assert settings.model == "from-variable"
    assert (settings.worker.concurrency, settings.worker.lease_s) == (4, 20.0)


@pytest.mark.parametrize("blank", ["", "  "])
def test_an_empty_variable_counts_as_unset(blank: str) -> None:
    names = ("LONGSTREAM_CONFIG", "LONGSTREAM_REDIS_URL", "LONGSTREAM_SIMULATOR_URL")
    pairs = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HOLYSHEEP_API_KEY", "HOLYSHEEP_BASE_URL")

    assert given(environ=dict.fromkeys((*names, *pairs), blank)) == Settings()


def test_white_space_around_a_number_in_a_variable_does_not_matter() -> None:
    assert given(environ={"LONGSTREAM_WORKER__CONCURRENCY": " 8\n"}).worker.concurrency == 8


def test_the_named_file_is_read_instead_of_the_default_one(tmp_path: Path) -> None:
    (tmp_path / "longstream.toml").write_text('model = "default"')
    (tmp_path / "other.toml").write_text('model = "other"')

    assert load({"LONGSTREAM_CONFIG": "other.toml"}, tmp_path).model == "other"
    assert load({"LONGSTREAM_CONFIG": str(tmp_path / "other.toml")}, Path("/")).model == "other"


def test_a_named_file_that_is_missing_is_a_problem() -> None:
    assert problems_of(environ={"LONGSTREAM_CONFIG": "gone.toml"}) == (
        "LONGSTREAM_CONFIG: there is no file gone.toml",
    )


def test_broker_and_results_default_to_the_redis_url() -> None:
    settings = given(
        environ={
            "LONGSTREAM_REDIS_URL": "valkey://h:6380/2",
            "LONGSTREAM_RESULT_URL": "rediss://results",
        }
    )

    assert settings.redis_url == settings.broker_url == "redis://h:6380/2"
    assert settings.result_url == "rediss://results"


def test_a_broker_without_the_server_of_the_logs_is_a_problem() -> None:
    (problem,) = problems_of(environ={"LONGSTREAM_BROKER_URL": "redis://h"})

    assert problem == "broker_url: set without redis_url, which holds the logs: set redis_url too"


def test_a_refused_url_is_reported_with_what_is_accepted_and_never_shown() -> None:
    (problem,) = problems_of(environ={"LONGSTREAM_REDIS_URL": "amqp://me:hunter2@host"})

    assert problem == (
        "redis_url: expected a URL that begins with one of redis://, rediss://, valkey://,"
        " valkeys://, unix:// (LONGSTREAM_REDIS_URL)"
    )


@pytest.mark.parametrize(
    ("toml", "setting", "expected", "got"),
    [
        ('[worker]\nconcurrency = "8"', "worker.concurrency", STREAMS, "'8'"),
        ("[worker]\nconcurrency = 2001", "worker.concurrency", STREAMS, "2001"),
        ("[clocks]\nread_s = true", "clocks.read_s", SECONDS, "true"),
        ("[clocks]\nread_s = inf", "clocks.read_s", SECONDS, "a very large number"),
        ("[clocks]\nread_s = nan", "clocks.read_s", SECONDS, "a very large number"),
        ("model = 5", "model", "a text that is not empty", "5"),
        ("max_file_bytes = [1]", "max_file_bytes", BYTES, "a list"),
        (f"max_file_bytes = 0x{'f' * 5000}", "max_file_bytes", BYTES, "a very large number"),
        ("clocks = 2026-01-01", "clocks", "a table", "a date or time"),
    ],
)
def test_a_wrong_value_in_the_file_is_reported_in_the_users_words(
    toml: str, setting: str, expected: str, got: str
) -> None:
    assert problems_of(toml) == (f"{setting}: expected {expected}, got {got} (longstream.toml)",)


@pytest.mark.parametrize("value", ["many", "0", "2.5", "0x10", "1" * 20])
def test_a_wrong_value_of_a_variable_is_reported_with_its_name(value: str) -> None:
    name = "LONGSTREAM_WORKER__CONCURRENCY"

    assert problems_of(environ={name: value}) == (
        f"worker.concurrency: expected {STREAMS}, got {value!r} ({name})",
    )


def test_a_lease_must_outlast_two_renewals() -> None:
    (problem,) = problems_of(environ={"LONGSTREAM_WORKER__LEASE_S": "10"})

    assert problem.startswith("worker.lease_s: expected more than twice worker.renew_s (5)")
    assert given(environ={"LONGSTREAM_WORKER__LEASE_S": "10.1"}).worker.lease_s == 10.1


def test_a_record_must_outlive_its_log() -> None:
    (problem,) = problems_of("[retention]\nrecord_s = 60")

    assert problem.startswith("retention.record_s: expected at least retention.log_s (604800)")


def test_the_ca_bundle_is_found_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "ca.pem").write_text("")
    (tmp_path / "conf" / "my.toml").write_text('ca_bundle = "ca.pem"')

    settings = load({"LONGSTREAM_CONFIG": "conf/my.toml"}, tmp_path)

    assert settings.ca_bundle == str(tmp_path / "conf" / "ca.pem")


def test_a_missing_ca_bundle_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"LONGSTREAM_CA_BUNDLE": "gone.pem"}, tmp_path)

    assert caught.value.problems == (
        f"ca_bundle: there is no file {tmp_path / 'gone.pem'} (LONGSTREAM_CA_BUNDLE)",
    )


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("LONGSTREAM_WORKER_CONCURRENCY", "LONGSTREAM_WORKER__CONCURRENCY"),
        ("LONGSTREAM_MODELS", "LONGSTREAM_MODEL"),
        ("LONGSTREAM_CLOCKS__READS", "LONGSTREAM_CLOCKS__READ_S"),
    ],
)
def test_a_misspelt_variable_is_reported_and_not_ignored(wrong: str, meant: str) -> None:
    assert problems_of(environ={wrong: "5"}) == (
        f"{wrong}: unknown variable, did you mean {meant}?",
    )


def test_variables_that_belong_to_others_are_left_alone() -> None:
    theirs = {
        "LONGSTREAM_REDIS_PORT": "tcp://10.0.0.1:6379",
        "LONGSTREAM_WORKER_SERVICE_HOST": "10.0.0.2",
        "LONGSTREAM_STATE_DIR": "/var/lib/longstream",
        "LONGSTREAM_SIMULATOR_SPEED": "10",
        "WORKER__CONCURRENCY": "no",
    }

    assert given(environ=theirs) == Settings()
    assert ignored(theirs) == []


def test_a_variable_that_means_nothing_is_named_with_what_may_have_been_meant() -> None:
    environ = {
        "LONGSTREAM_DEFAULT_MODL": "gpt-x",
        "LONGSTREAM_LEASE_S": "10",
        "LONGSTREAM_COLOUR": "red",
        "LONGSTREAM_EMPTY": "",
        "OTHER_MODL": "x",
    }
    assert given(environ=environ) == Settings()
    assert ignored(environ) == [
        "LONGSTREAM_COLOUR is no setting and is ignored",
        "LONGSTREAM_DEFAULT_MODL is no setting and is ignored, did you mean LONGSTREAM_MODEL?",
        "LONGSTREAM_LEASE_S is no setting and is ignored, did you mean LONGSTREAM_WORKER__LEASE_S?",
    ]


def test_all_problems_are_reported_together() -> None:
    problems = problems_of(
        ONE_KEY.replace("openai", "opnai") + "\n[worker]\nconcurrency = 0\n[clock]\n",
        {"LONGSTREAM_CLOCKS__READ_S": "soon", "LONGSTREAM_REDIS_URL": "http://h"},
    )

    assert [problem.split(":")[0] for problem in problems] == [
        "clock",
        "redis_url",
        "clocks.read_s",
        "worker.concurrency",
        "key 'main'",
    ]


def test_the_error_text_is_one_line() -> None:
    with pytest.raises(SettingsError) as caught:
        given('"a\\nb\\u001b[31m" = 1\n[worker]\nconcurrency = "x\\ny"')

    assert str(caught.value).isprintable()
    assert len(caught.value.problems) == 2
