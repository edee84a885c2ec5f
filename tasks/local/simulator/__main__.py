"""Starts the simulator, says where it listens in one JSON line, and runs until it is told to stop.

python -m tasks.local.simulator --speed 10
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import msgspec

from tasks.local.simulator.catalogue import table
from tasks.local.simulator.limits import LimitsFile, read_limits
from tasks.local.simulator.server import Simulator

LOOPBACK = "127.0.0.1"
STDIN = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; 1 when the port cannot be had, or a file not be used."""
    options = _parser().parse_args(arguments)
    if options.list:
        sys.stdout.write(table())
        return 0
    try:
        limits = read_limits(options.limits) if options.limits else None
    except (OSError, ValueError) as error:
        sys.stderr.write(f"simulator: cannot use the limits of {options.limits}: {error}\n")
        return 1
    try:
        asyncio.run(_run(options, limits))
    except OSError as error:
        sys.stderr.write(f"simulator: cannot listen on {options.host}:{options.port}: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.local.simulator",
        description="A simulated provider. Every answer is made up from a seed.",
    )
    parser.add_argument("--host", default=LOOPBACK, help="any other than loopback is on you")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="FACTOR",
        help="divides every silence; 0 or 'max' leaves none",
    )
    parser.add_argument("--announce-file", metavar="PATH", help="write the announcement here too")
    parser.add_argument(
        "--until-stdin-closes",
        action="store_true",
        help="stop when stdin ends, so as not to outlive the process that holds it",
    )
    parser.add_argument("--limits", metavar="FILE", help="real limits by account; see limits.py")
    parser.add_argument("--list", action="store_true", help="print the models and stop")
    return parser


def _speed(text: str) -> float:
    speed = 0.0 if text == "max" else float(text)
    if not 0.0 <= speed < float("inf"):
        raise argparse.ArgumentTypeError("a speed is 0, 'max' or a positive number")
    return speed


async def _run(options: argparse.Namespace, limits: LimitsFile | None) -> None:
    simulator = Simulator(speed=options.speed, limits=limits)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if options.until_stdin_closes:
        loop.add_reader(STDIN, _watch_stdin, stopping)
    port = await simulator.open(options.host, options.port)
    _announce(options.host, port, options.announce_file)
    await stopping.wait()
    await simulator.close()


def _watch_stdin(stopping: asyncio.Event) -> None:
    if not os.read(STDIN, 4_096):
        asyncio.get_running_loop().remove_reader(STDIN)
        stopping.set()


def _announce(host: str, port: int, announce_file: str | None) -> None:
    shown = f"[{host}]" if ":" in host else host
    place = {"url": f"http://{shown}:{port}/v1", "pid": os.getpid()}
    line = msgspec.json.encode(place) + b"\n"
    if announce_file is not None:
        _write_atomically(announce_file, line)
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _write_atomically(path: str, data: bytes) -> None:
    """Without pathlib: the import would be a tenth of the start."""
    partial = f"{path}.{os.getpid()}.part"
    with open(partial, "wb") as file:  # noqa: PTH123
        file.write(data)
    os.replace(partial, path)  # noqa: PTH105


if __name__ == "__main__":
    sys.exit(main())
