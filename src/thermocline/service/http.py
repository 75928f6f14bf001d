"""Health and metrics over HTTP: /healthz, /readyz, /metrics. Nobody has to say who he is, so it is on loopback."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest

from thermocline import log as logs
from thermocline import meters
from thermocline.errors import Busy, Misconfigured
from thermocline.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from prometheus_client import CollectorRegistry

    from thermocline.work.node import Node

    Answer = tuple[bool, dict[str, Any]]

log = logs.get(__name__)


class AddressTaken(Busy):
    """Somebody listens at the service's address already."""

    code = "service.address_taken"
    next_step_by_default = "Another service may be running here; else choose another one: `thermocline run --port`."


class Watch:
    """Answers in threads of its own while the block lasts."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        healthy: Callable[[], Answer],
        ready: Callable[[], Answer],
    ) -> None:
        handler = type(
            "_Bound", (_Handler,), {"registry": registry, "answers": {"/healthz": healthy, "/readyz": ready}}
        )
        try:
            self._server = _Server(host, port, handler)
        except (socket.gaierror, UnicodeError) as error:
            raise Misconfigured(
                f"The service cannot listen at {host}: there is no such host.",
                next_step="Correct service.host, or `thermocline run --host`: an address of this machine.",
            ) from error
        except OSError as error:
            raise AddressTaken(f"The service cannot listen at {host}:{port}: {error.strerror or error}.") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self._server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def watch_node(host: str, port: int, node: Node) -> Iterator[Watch]:
    """A node without a service around it: what its process counts, and whether it can claim."""

    def healthy() -> Answer:
        return True, {"healthy": True}

    def ready() -> Answer:
        trouble = node.worker.tally.trouble
        return trouble is None, {"ready": trouble is None, "trouble": trouble}

    process = ProcessCollector(registry=None)
    with Watch(host, port, meters.REGISTRY, healthy=healthy, ready=ready) as watch:
        meters.REGISTRY.register(process)
        log.info("node shown", url=watch.url)
        try:
            yield watch
        finally:
            meters.REGISTRY.unregister(process)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Without asking for our own name, which may take as long as a name server is away."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has gone, or what was asked failed: that is for the log."""
        del request, client_address
        log.warning("request failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    registry: ClassVar[CollectorRegistry]
    answers: ClassVar[dict[str, Callable[[], Answer]]]
    timeout = 30
    server_version = "thermocline"
    sys_version = ""

    def do_GET(self) -> None:
        try:
            answer = self._answer(self.path.partition("?")[0])
        except Exception:  # whoever asks is told, rather than left without an answer
            log.exception("request failed")
            answer = (HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", b"That failed; the log says more.\n")
        self._send(*answer)

    do_HEAD = do_GET  # noqa: N815 (the library's name)

    def _answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        if path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self.registry)
        if path in self.answers:
            good, said = self.answers[path]()
            status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
            return status, "application/json", json.dumps(said, default=str).encode() + b"\n"
        return HTTPStatus.NOT_FOUND, "text/plain", b"There are /healthz, /readyz and /metrics.\n"

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the library's name)
        log.debug("http", message=masked(format % args))
