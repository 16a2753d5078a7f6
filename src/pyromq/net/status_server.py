"""A small HTTP server for what operators ask a process: its metrics, its health.

    GET /metrics ──┐
    GET /health/… ─┴─► StatusServer, on a thread ──► the page of that path ── turns of the loop ──► tables

A page is a WSGI application: it runs on a thread, so it answers when the loop does not.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyromq.errors import ListenFailed
from pyromq.net.address import join_address

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

LOOPBACK: Final = "127.0.0.1"
#: Seconds that whoever connects has for its request.
REQUEST_S_MAX: Final = 10.0

#: A WSGI application.
Page = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class StatusServer:
    """Serves pages, each at its paths, while it is started."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = dict(pages)
        self._host = LOOPBACK
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; known once it is started."""
        assert self._server is not None
        return self._server.server_port

    @property
    def url(self) -> str:
        """The address that pages' paths follow."""
        return f"http://{join_address(self._host, self.port)}"

    async def start(self, host: str, port: int, *, what: str, settings: str) -> None:
        """Listen; raise ListenFailed, which says `what` cannot be served, and which `settings` to change."""
        self._host = host
        try:
            await asyncio.to_thread(self._listen, host, port)
        except OSError as error:
            raise ListenFailed(
                f"{what} cannot be served on {join_address(host, port)}: {error.strerror or error}; "
                f"choose another {settings}"
            ) from error

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await asyncio.to_thread(self._stop, self._server)

    def answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD"), ("Content-Length", "0")])
            return [b""]
        page = self._pages.get(environ.get("PATH_INFO", "/"))
        if page is not None:
            return page(environ, start_response)
        text = f"There is nothing here. Pages: {' '.join(sorted(self._pages))}\n".encode()
        head = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
        start_response("404 Not Found", head)
        return [text]

    def _listen(self, host: str, port: int) -> None:
        # Only now: a process that serves no pages need not load it.
        from socketserver import ThreadingMixIn
        from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

        class Handler(WSGIRequestHandler):
            timeout = REQUEST_S_MAX

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: probes come every few seconds."""

        class Listener(ThreadingMixIn, WSGIServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        self._server = Listener((host, port), Handler)
        self._server.set_app(self.answer)
        self._thread = threading.Thread(target=self._server.serve_forever, name="status pages", daemon=True)
        self._thread.start()

    def _stop(self, server: "WSGIServer") -> None:
        server.shutdown()
        server.server_close()
        if self._thread is not None:
            self._thread.join()
