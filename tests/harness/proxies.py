"""A wire between a client and a server that can be cut at a chosen moment, on the level of the socket."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Proxy:
    """Passes everything on until told otherwise."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._words: list[bytes] = []
        self._delivered = True
        self.cuts = 0
        self.refuses = False
        """Whether nobody new is let through once it was cut."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, *words: bytes, delivered: bool) -> None:
        """Cut a connection once its client has said these words in this order.

        Delivered: the server hears the last one and answers, and only the answer is lost.
        """
        self._words, self._delivered = list(words), delivered

    def close(self) -> None:
        """No more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if self.refuses and self.cuts:
            client.close()
            return
        with client, suppress(OSError), socket.create_connection(self._target) as server:
            silent = threading.Event()
            back = threading.Thread(target=_pass_on, args=(server, client, silent), daemon=True)
            back.start()
            waiting = list(self._words)
            while said := client.recv(65536):
                while waiting and waiting[0] in said:
                    waiting.pop(0)
                if self._words and not waiting:
                    self._words, self.cuts = [], self.cuts + 1
                    if self._delivered:
                        silent.set()
                        server.sendall(said)
                        server.settimeout(20)
                        back.join(20)  # ends with the server's answer
                    break
                server.sendall(said)
            for end in (client, server):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def _pass_on(source: socket.socket, sink: socket.socket, silent: threading.Event) -> None:
    with suppress(OSError):
        while answered := source.recv(65536):
            if silent.is_set():
                return
            sink.sendall(answered)


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """A wire to a server on this machine."""
    one = Proxy(port)
    try:
        yield one
    finally:
        one.close()
