"""Between a feed and an S3 server: passes requests on, but for those that the test wants denied."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_DENIED = (
    b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
)
_OWN = ("connection", "transfer-encoding", "content-length", "date", "server", "expect")


class Guard:
    """Which requests are denied: `method path` begins with one of these."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.denied: tuple[str, ...] = ()


@contextmanager
def guarded(server: str) -> Iterator[Guard]:
    """A guard before an S3 server; its address is the one to be used."""
    target = urlsplit(server).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            content = self._content()
            if f"{self.command} {self.path}".startswith(guard.denied):
                self._answer(403, {"Content-Type": "application/xml"}, _DENIED)
                return
            onwards = HTTPConnection(target, timeout=30)
            try:
                told = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
                onwards.request(self.command, self.path, content, told)
                answer = onwards.getresponse()
                told = {name: value for name, value in answer.getheaders() if name.lower() not in _OWN}
                body = answer.read()
                length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
                self._answer(answer.status, told, body, length)
            finally:
                onwards.close()

        def _content(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():  # what may stand behind the last one
                pass
            return found

        def _answer(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815 (names of the standard library's)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    guard = Guard(f"http://127.0.0.1:{listening.server_port}")
    thread = threading.Thread(target=listening.serve_forever, name="s3-guard", daemon=True)
    thread.start()
    try:
        yield guard
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
