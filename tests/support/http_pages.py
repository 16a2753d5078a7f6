"""A real HTTP server on 127.0.0.1 that answers what a test wants: the address that tells name servers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Pages:
    """What is answered by path: a status and a body; any other path is not there."""

    def __init__(self) -> None:
        self.address = ""
        #: The paths that were asked for, in turn.
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, bytes]] = {}

    def says(self, path: str, text: str) -> None:
        """Answer a path with one line from now on."""
        self.answers[path] = (200, f"{text}\n".encode())


@contextmanager
def served_pages() -> Iterator[Pages]:
    """Serve pages at `address`, host:port."""
    pages = Pages()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages.asked.append(self.path)
            status, body = pages.answers.get(self.path, (404, b"not here"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        pages.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield pages
        finally:
            server.shutdown()
            thread.join()
