"""The floor: the least a Python process can do to move the deltas of many streams into Redis.

Raw sockets and epoll, no event loop, no HTTP library, no client library; bytes are split at the
blank lines of events, each event's JSON is parsed once, and the texts of one turn go out as one
pipeline of XADD while the replies to the one before are only counted. It keeps none of the
product's promises: nothing is checked, sent again, bounded or brought to an end.

    python -m tests.benchmarks.stream_load.floor REDIS_SOCKET PROVIDER_URL STREAMS
"""

from __future__ import annotations

import select
import socket
import sys
from urllib.parse import urlsplit

import msgspec

from tests.benchmarks.stream_load.contender import log_of


class Delta(msgspec.Struct, gc=False):
    content: str | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Delta


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice]


def main(redis_path: str, provider: str, streams: int) -> None:
    place = urlsplit(provider)
    address = (place.hostname, place.port)
    request = (
        f"POST {place.path}/chat/completions HTTP/1.1\r\nhost: {place.netloc}\r\n"
        "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    ).encode()
    store = socket.socket(socket.AF_UNIX)
    store.connect(redis_path)
    poll = select.epoll()
    poll.register(store.fileno(), select.EPOLLIN)
    links: dict[int, tuple[socket.socket, bytes]] = {}
    rests: dict[int, bytes] = {}
    for number in range(streams):
        link = socket.create_connection(address)
        link.sendall(request)
        link.setblocking(False)
        key = log_of("floor", number).encode()
        begun = b"*5\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n$1\r\ne\r\n$" % (len(key), key)
        links[link.fileno()] = link, begun
        rests[link.fileno()] = b""
        poll.register(link.fileno(), select.EPOLLIN)
    print("ready", flush=True)
    decode = msgspec.json.Decoder(Chunk).decode
    out: list[bytes] = []
    unanswered = 0
    at_store = store.fileno()
    while True:
        for fd, _ in poll.poll():
            if fd == at_store:
                # A reply is a bulk string: its length and an id, a line each.
                unanswered -= store.recv(1 << 16).count(b"\n")
                continue
            link, begun = links[fd]
            *events, rests[fd] = (rests[fd] + link.recv(1 << 16)).split(b"\n\n")
            said = ""
            for event in events:
                at = event.find(b"data: ")
                if at >= 0 and (text := decode(event[at + 6 :]).choices[0].delta.content):
                    said += text
            if said:
                data = said.encode()
                out.append(b"%b%d\r\n%b\r\n" % (begun, len(data), data))
        if out and not unanswered:
            unanswered = 2 * len(out)
            store.sendall(b"".join(out))
            out.clear()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
