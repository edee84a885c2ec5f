"""A trace collector: takes OTLP over HTTP from workers and submitters, and keeps the spans."""

from __future__ import annotations

import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Listens from the start to `close`."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.bodies: list[bytes] = []
        spans, bodies = self.spans, self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = zlib.decompress(body, 31)
                bodies.append(body)
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        spans.extend(scope.spans)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def named(self, name: str) -> list[Any]:
        """The spans of this name, in the order they began."""
        found = [span for span in self.spans if span.name == name]
        return sorted(found, key=lambda span: int(span.start_time_unix_nano))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def told(span: Any) -> dict[str, Any]:
    """The attributes of a span, those of our own without their prefix."""
    return {
        each.key.removeprefix("longstream."): getattr(each.value, each.value.WhichOneof("value"))
        for each in span.attributes
    }
