"""The engine's event loop: asyncio's, with a short way for the sockets that bring nearly all.

A read passes a dozen functions of asyncio before whoever it is for has its bytes, and each turn of
the loop a dozen more. The files that are *served* are looked at where the loop waits: what they
bring is taken at once, in one go for all that are ready, and what that made due (`soon`) is done
behind it. The loop's own turn comes only when something is there for it.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, TypeVarTuple

Args = TypeVarTuple("Args")

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
#: Where there is no epoll, nothing is served.
_IN, _OUT = getattr(select, "EPOLLIN", 1), getattr(select, "EPOLLOUT", 4)

#: No wait is longer; the loop then waits again.
_EVER_S = 86_400.0


class Selector(selectors.BaseSelector):
    """Waits for files as the standard one does, and serves others meanwhile."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        """`failed` is told what a served file's owner raised."""
        self._failed = failed
        self._epoll = select.epoll()
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._served: dict[int, Callable[[], None]] = {}
        self._due: list[Callable[[], None]] = []
        #: Something is there for the loop beside files.
        self.stirred = False

    def serve(self, fd: int, ready: Callable[[], None]) -> None:
        """Call `ready` whenever the file can be read, until `leave`."""
        before = self._mask(fd)
        self._served[fd] = ready
        self._watch(fd, before)

    def leave(self, fd: int) -> None:
        """Serve it no more. Must be called before the file is closed."""
        before = self._mask(fd)
        if self._served.pop(fd, None) is not None:
            self._watch(fd, before)

    def soon(self, call: Callable[[], None]) -> None:
        """Do that behind what is ready now, once."""
        self._due.append(call)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Before what is due: that may stir the loop, which must not wait then.
        self.stirred = False
        self._do_due()
        wait_s = 0.0 if self.stirred else _EVER_S if timeout is None else max(timeout, 0.0)
        until = time.monotonic() + wait_s
        found: list[tuple[selectors.SelectorKey, int]] = []
        poll, served = self._epoll.poll, self._served
        while True:
            for fd, mask in poll(wait_s):
                try:
                    # Nearly always it is one that is served and no other's business.
                    if mask == _IN and fd in served:
                        served[fd]()
                    else:
                        self._look(fd, mask, found)
                except Exception as error:
                    self._failed(error)
            if self._due:
                self._do_due()
            wait_s = until - time.monotonic()
            if found or self.stirred or wait_s <= 0.0:
                return found

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = _number(fileobj)
        before = self._mask(fd)
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._watch(fd, before)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        fd = _number(fileobj)
        before = self._mask(fd)
        key = self._keys.pop(fd)
        self._watch(fd, before)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.register(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[_number(fileobj)]

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()
        self._served.clear()

    def _look(self, fd: int, mask: int, found: list[tuple[selectors.SelectorKey, int]]) -> None:
        """What happened to a file that is the loop's, or both the loop's and served."""
        if fd in self._served and mask & ~_OUT:
            self._served[fd]()
        key = self._keys.get(fd)
        if key is not None and (happened := _events(mask) & key.events):
            found.append((key, happened))

    def _do_due(self) -> None:
        while self._due:
            due, self._due = self._due, []
            for call in due:
                try:
                    call()
                except Exception as error:
                    self._failed(error)

    def _mask(self, fd: int) -> int:
        key = self._keys.get(fd)
        wanted = key.events if key is not None else 0
        read = wanted & _READ or fd in self._served
        return (_IN if read else 0) | (_OUT if wanted & _WRITE else 0)

    def _watch(self, fd: int, before: int) -> None:
        mask = self._mask(fd)
        if not before:
            self._epoll.register(fd, mask)
        elif mask:
            self._epoll.modify(fd, mask)
        else:
            self._epoll.unregister(fd)


class Loop(asyncio.SelectorEventLoop):
    """Use `turn` to have files served."""

    def __init__(self) -> None:
        self.turn = Selector(self._told)
        super().__init__(self.turn)

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        self.turn.stirred = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.turn.stirred = True
        return super().call_at(when, callback, *args, context=context)

    def _told(self, error: Exception) -> None:
        self.call_exception_handler({"message": "a served file's owner failed", "exception": error})


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that serves files where the system can, and asyncio's elsewhere."""
    return Loop() if hasattr(select, "epoll") else asyncio.new_event_loop()


def _number(fileobj: Any) -> int:
    return fileobj if isinstance(fileobj, int) else int(fileobj.fileno())


def _events(mask: int) -> int:
    return (_WRITE if mask & ~_IN else 0) | (_READ if mask & ~_OUT else 0)
