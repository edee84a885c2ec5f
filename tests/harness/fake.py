"""A fake store whose scripts have `struct`, as those of every real one do."""

from __future__ import annotations

import struct
from typing import Any

import fakeredis

_STRUCT = """
function(pack, unpack_to)
  struct = {
    pack = pack,
    unpack = function(format, data, at) return unpack(unpack_to(format, data, at or 1)) end,
  }
end
"""


def fake_server() -> fakeredis.FakeServer:
    """An empty server; what is asked of its scripts first makes their runtime."""
    server: Any = fakeredis.FakeServer()
    fakeredis.FakeRedis(server=server).eval("return 1", 0)
    runtime = server._lua_runtime

    def unpack_to(form: bytes, data: bytes, at: float) -> Any:
        return runtime.table_from(struct.unpack_from(form, data, int(at) - 1))

    runtime.eval(_STRUCT)(struct.pack, unpack_to)
    server._lua_expected_globals.add(b"struct")
    return server  # type: ignore[no-any-return]
