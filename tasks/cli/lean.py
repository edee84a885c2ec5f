"""redis-py without what no command uses of it.

Loading all of it takes half the time that `tail` has until its first character. With `lean_redis`
in force the first `import redis` leaves out its asyncio half, which is loaded as ever by whoever
asks for it afterwards; its metrics, which would bring OpenTelemetry along; and `importlib.metadata`
with zip files and e-mail behind it, which is loaded when somebody asks for a version.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType

#: redis-py does without them, as it does where OpenTelemetry is not installed.
_ABSENT = ("opentelemetry.metrics", "opentelemetry.sdk.metrics")
#: A part of it is needed, and is found although the whole is not loaded.
_LATER = "redis.asyncio"
#: Loaded at its first use.
_LAZY = "importlib.metadata"


def lean_redis() -> None:
    """From here on; without effect once redis-py is loaded."""
    if "redis" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds redis-py, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "redis":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        if _LAZY not in sys.modules:
            _load_lazily(_LAZY)
        with _left_out(module):
            super().exec_module(module)


def _load_lazily(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = LazyLoader(spec.loader)
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # Found there, it is not looked at; any look loads it.
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)


@contextmanager
def _left_out(package: ModuleType) -> Iterator[None]:
    """None in `sys.modules` says that there is no such module. What is loaded already stays."""
    later = ModuleType(_LATER)
    later.__path__ = [f"{where}/asyncio" for where in package.__path__]
    stand_ins = {_LATER: later, **dict.fromkeys(_ABSENT)}
    ours = {name: each for name, each in stand_ins.items() if name not in sys.modules}
    sys.modules.update(ours)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in ours:
            del sys.modules[name]
