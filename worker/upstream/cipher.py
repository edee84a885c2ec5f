"""TLS of one connection, without I/O: bytes that come are opened, bytes that go are sealed.

asyncio has this too, but hands out no file to read past it: each read would go through its
transport and six functions of its own (`worker.sockets.loop`).
"""

from __future__ import annotations

import ssl
from contextlib import suppress

#: The most a TLS record holds.
_RECORD_BYTES = 16 * 1024


class Cipher:
    """The client's side. What it has to send is in `outgoing`, after every call."""

    def __init__(self, context: ssl.SSLContext, hostname: str | None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)
        #: The other side has said that nothing more comes.
        self.is_over = False
        #: What was opened last asks for an answer.
        self.must_answer = False

    def outgoing(self) -> bytes:
        """What is to be sent now."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def shake(self, data: bytes = b"") -> bool:
        """Goes on with the handshake; True when it is done. Raises ssl.SSLError."""
        self._incoming.write(data)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def opened(self, data: bytes = b"") -> bytes:
        """The plain bytes that these complete. Raises ssl.SSLError when they are none of ours."""
        self._incoming.write(data)
        pieces: list[bytes] = []
        try:
            while piece := self.tls.read(_RECORD_BYTES):
                pieces.append(piece)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        self.must_answer = self._outgoing.pending > 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def sealed(self, data: bytes) -> bytes:
        """What is to be sent for these."""
        view = memoryview(data)
        while view:
            view = view[self.tls.write(view) :]
        return self.outgoing()

    def farewell(self) -> bytes:
        """What is to be sent last."""
        # It would wait for the other side's; nobody does.
        with suppress(ssl.SSLError):
            self.tls.unwrap()
        return self.outgoing()
