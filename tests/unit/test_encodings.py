"""A compressed body is unpacked whole, or not taken for whole."""

from __future__ import annotations

import gzip
import zlib

import pytest

from worker.upstream.encodings import Inflate, inflate_for
from worker.upstream.failures import UpstreamFailure

TEXT = b"data: some event\n\n" * 50


def encoding_for(name: str) -> Inflate:
    inflate = inflate_for(name)
    assert inflate is not None
    return inflate


def packed(kind: str) -> bytes:
    if kind == "gzip":
        return gzip.compress(TEXT)
    if kind == "deflate":
        return zlib.compress(TEXT)
    bare = zlib.compressobj(wbits=-15)
    return bare.compress(TEXT) + bare.flush()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("kind", ["gzip", "deflate", "bare"])
def test_a_compressed_body_is_unpacked_a_read_at_a_time(kind: str, size: int) -> None:
    encoding, data = encoding_for("gzip" if kind == "gzip" else "deflate"), packed(kind)
    if kind == "bare" and size == 1:
        size = 2  # one byte does not tell bare deflate from zlib

    out = b"".join(encoding.feed(data[i : i + size]) for i in range(0, len(data), size))

    assert out == TEXT
    assert encoding.whole


def test_every_member_of_a_gzip_body_is_read() -> None:
    encoding = encoding_for("gzip")

    assert encoding.feed(packed("gzip") + packed("gzip") + b"\0\0") == TEXT * 2
    assert encoding.whole


def test_a_cut_body_is_not_whole() -> None:
    encoding = encoding_for("gzip")
    encoding.feed(packed("gzip")[:-9])

    assert not encoding.whole


def test_what_does_not_unpack_is_a_protocol_error() -> None:
    with pytest.raises(UpstreamFailure) as caught:
        encoding_for("gzip").feed(b"data: plain\n\n")

    assert caught.value.kind == "protocol"


def test_a_bomb_is_refused() -> None:
    bomb = gzip.compress(bytes(70 * 2**20))

    with pytest.raises(UpstreamFailure, match="swells"):
        encoding_for("gzip").feed(bomb)


def test_identity_costs_nothing_and_the_unknown_is_named() -> None:
    assert inflate_for("Identity") is None
    with pytest.raises(UpstreamFailure, match="encoded as br"):
        inflate_for("br")
