"""The network's tests run on both loops that a server may run on."""

import asyncio
import socket

import pytest
import uvloop


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def refusing_address():
    """An address at which nobody listens, nor can: it is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"
