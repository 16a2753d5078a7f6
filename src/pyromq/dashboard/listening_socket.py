"""The dashboard's listening socket; `pyromq up` opens it too, without a web server in its process."""

import socket

from pyromq.errors import ListenFailed
from pyromq.net.address import join_address


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; 0 takes a free port. Raises ListenFailed."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ListenFailed(
            f"the dashboard cannot listen on {join_address(host, port)}: {error.strerror or error}; choose "
            "another port (0 takes a free one)"
        ) from error
