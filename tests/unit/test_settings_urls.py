from __future__ import annotations

import pytest
import redis
from hypothesis import given, strategies as st
from kombu import Connection

from settings.urls import for_celery, masked, redis_url


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("redis://h", "redis://h"),
        ("rediss://u:p%40@h:6380/3?db=1", "rediss://u:p%40@h:6380/3?db=1"),
        ("valkey://:pw@[::1]:6379/0", "redis://:pw@[::1]:6379/0"),
        ("VALKEYS://h", "rediss://h"),
        ("unix:///run/valkey.sock?db=2", "unix:///run/valkey.sock?db=2"),
        ("unix://:pw@/run/valkey.sock", "unix://:pw@/run/valkey.sock"),
    ],
)
def test_valkey_is_written_as_redis_and_the_rest_is_kept(written: str, meant: str) -> None:
    assert redis_url(written) == meant
    assert redis.ConnectionPool.from_url(meant)


@pytest.mark.parametrize(
    "text",
    [
        "localhost:6379",
        "http://h",
        "amqp://h",
        "redis://",
        "redis:///0",
        "redis://h:port",
        "redis://h:99999",
        "redis://h:0",
        "redis://h/db",
        "redis://:p#w@h",
        "redis://:p/w@h",
        "redis://:p w@h",
        "redis://[::1",
        "unix://",
        "unix:///",
        "unix://run/valkey.sock",
        "unix:///a#b",
    ],
)
def test_a_url_redis_would_misread_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected "):
        redis_url(text)


@given(st.text(min_size=1), st.sampled_from(["redis://", "rediss://u", "unix://"]))
def test_no_password_survives_masking_however_badly_it_is_encoded(word: str, start: str) -> None:
    password = f"<{word}>"
    for url in (f"{start}:{password}@h/0", f"{start}@h/0?password={password}"):
        assert password not in masked(url)


def test_masking_keeps_what_is_no_secret() -> None:
    assert masked("redis://:pw@h:6379/3") == "redis://***@h:6379/3"
    assert masked("unix:///run/v.sock?db=2&password=1") == "unix:///run/v.sock?db=2&password=***"
    assert masked("pw") == "***"


def test_a_socket_is_written_as_celery_names_it() -> None:
    url = for_celery("unix://:p%40@/run/valkey.sock?db=2")

    assert url == "redis+socket://:p%40@/run/valkey.sock?virtual_host=2"
    assert for_celery("redis://h/1") == "redis://h/1"


def test_celery_is_told_to_check_certificates() -> None:
    url = for_celery("rediss://h:6380/1?ssl_ca_certs=/etc/ca.pem")

    assert url == "rediss://h:6380/1?ssl_ca_certs=/etc/ca.pem&ssl_cert_reqs=required"
    assert Connection(url).ssl["ssl_cert_reqs"].name == "CERT_REQUIRED"
