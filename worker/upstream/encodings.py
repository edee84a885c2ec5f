"""Undoes a `Content-Encoding` that came although `identity` was asked for, and checks its end.

A compressed body that is cut, or has several members, must not look like a whole short one.
"""

from __future__ import annotations

import zlib

from worker.upstream.failures import UpstreamFailure, malformed

#: One read may not swell to more than this.
OUTPUT_BYTES = 64 * 2**20

_GZIP_OR_ZLIB, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS


class Inflate:
    """gzip and deflate, a read at a time, over all members. `whole`: no member is cut."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._fresh = True

    @property
    def whole(self) -> bool:
        return self._fresh or self._stream.eof

    def feed(self, data: bytes) -> bytes:
        """What these bytes unpack to. Raises `UpstreamFailure` for what does not unpack."""
        out = bytearray()
        while data:
            if self._stream.eof:
                data = data.lstrip(b"\0")
                self._stream, self._fresh = zlib.decompressobj(_GZIP_OR_ZLIB), True
                continue
            out += self._unpacked(data, OUTPUT_BYTES + 1 - len(out))
            if len(out) > OUTPUT_BYTES:
                raise malformed("the compressed body swells without end", b"")
            self._fresh = False
            data = self._stream.unused_data
        return bytes(out)

    def _unpacked(self, data: bytes, limit_bytes: int) -> bytes:
        try:
            return self._stream.decompress(data, limit_bytes)
        except zlib.error:
            if not self._fresh:
                raise malformed("the body does not unpack as its encoding", data) from None
        try:
            self._stream = zlib.decompressobj(_RAW)
            return self._stream.decompress(data, limit_bytes)
        except zlib.error:
            raise malformed("the body does not unpack as its encoding", data) from None


def inflate_for(name: str) -> Inflate | None:
    """What undoes a `Content-Encoding` header; None when there is nothing to undo."""
    name = name.strip().lower()
    if name in ("", "identity", "none"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return Inflate()
    raise UpstreamFailure(
        f"the answer is encoded as {name}, although identity was asked for",
        kind="encoding",
        fault="network",
        retryable=False,
    )
