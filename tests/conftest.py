"""Fixtures only; what they are made of lives in tests/harness."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import fakeredis
import hypothesis
import pytest
import redis
import redis.asyncio

from tests.harness.fake import fake_server
from tests.harness.valkey import Valkey
from worker.sockets.loop import Loop
from worker.store.connections import connect, connect_async

#: A timing is no claim: on a busy machine a single example may take long.
hypothesis.settings.register_profile("longstream", deadline=None)
hypothesis.settings.load_profile("longstream")


def pytest_collection_finish() -> None:
    """Thousands of tests are nobody's garbage, and are not searched again in each of them."""
    gc.collect()
    gc.freeze()


LOOPS = {"asyncio": asyncio.SelectorEventLoop, "engine": Loop}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What a module's coroutines run on: asyncio's loop, or what its `ON` names."""
    names = getattr(getattr(item, "module", None), "ON", ("asyncio",))
    return {name: LOOPS[name] for name in names}


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so does whatever that starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def nothing_of_the_user() -> Iterator[None]:
    """Whoever runs the tests has settings, keys and a stack: none is used, and none is started."""
    theirs = ("LONGSTREAM_", "OPENAI_", "HOLYSHEEP_")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(theirs)]:
            patch.delenv(name)
        # No directory: what forgets to say where its stack is fails, and says so.
        patch.setenv("XDG_STATE_HOME", os.devnull)
        yield


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = Valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.stop()


@dataclass
class Store:
    """One empty store, and clients for it."""

    sync: redis.Redis
    url: str | None
    fake: fakeredis.FakeServer | None

    def aio(self) -> redis.asyncio.Redis:
        if self.fake is not None:
            return fakeredis.FakeAsyncRedis(server=self.fake, protocol=2)
        assert self.url is not None
        return connect_async(self.url)


@pytest.fixture(params=["fakeredis", "valkey"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """The same claims on both: what passes on the fake alone proves nothing."""
    if request.param == "fakeredis":
        fake = fake_server()
        yield Store(sync=fakeredis.FakeRedis(server=fake, protocol=2), url=None, fake=fake)
        return
    server: Valkey = request.getfixturevalue("valkey")
    with connect(server.url) as client:
        client.flushall()
        yield Store(sync=client, url=server.url, fake=None)
