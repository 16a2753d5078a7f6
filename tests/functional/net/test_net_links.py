"""Links to other servers: one for each address, opened when needed."""

import asyncio

import pytest

from pyromq.clock import SystemClock
from pyromq.config.settings import NetSettings
from pyromq.errors import ClientClosed, ConnectFailed, ConnectionLost
from pyromq.net.links import Links
from pyromq.net.routes import Answer, RequestTable, Route
from pyromq.net.server import Server
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command

ECHO, HELD = 10, 11


@pytest.fixture
async def server():
    seen = []

    def echo(request):
        seen.append(request.command)
        return Answer(body=request.body)

    def hold(request):
        return asyncio.get_running_loop().create_future()

    server = Server(
        RequestTable([Route(ECHO, echo), Route(HELD, hold)]), NetSettings(), clock=SystemClock(), name="test"
    )
    host, port = await server.start("127.0.0.1", 0)
    server.address, server.seen = f"{host}:{port}", seen
    yield server
    await server.close()


@pytest.fixture
async def links():
    links = Links(NetSettings())
    yield links
    await links.close()


async def test_many_who_ask_at_once_share_one_connection(server, links):
    await asyncio.gather(*(links.request(server.address, Command(ECHO), 5) for _ in range(64)))

    assert len(server.links) == 1


async def test_an_address_where_nobody_listens_is_named(links, refusing_address):
    with pytest.raises(ConnectFailed, match=refusing_address):
        await links.request(refusing_address, Command(ECHO), 5)


async def test_all_who_wait_for_a_connection_that_fails_are_told(links, refusing_address):
    results = await asyncio.gather(
        *(links.request(refusing_address, Command(ECHO), 5) for _ in range(3)), return_exceptions=True
    )

    assert [type(result) for result in results] == [ConnectFailed] * 3


async def test_one_who_gives_up_does_not_end_the_connecting_of_the_others(server, links):
    patient = asyncio.ensure_future(links.request(server.address, Command(ECHO, body=b"x"), 5))
    hasty = asyncio.ensure_future(links.request(server.address, Command(ECHO), 5))
    await asyncio.sleep(0)

    hasty.cancel()

    assert (await patient).body == b"x"


async def test_after_the_connection_ended_the_next_request_opens_a_new_one(server, links):
    await links.request(server.address, Command(ECHO), 5)
    for link in tuple(server.links):
        link.abort()
    await aeventually(lambda: not server.links)

    # The end may not have arrived here yet; then the first request fails and the second must not.
    try:
        answer = await links.request(server.address, Command(ECHO, body=b"again"), 5)
    except ConnectionLost:
        answer = await links.request(server.address, Command(ECHO, body=b"again"), 5)

    assert answer.body == b"again"


async def test_a_dropped_link_is_opened_anew(server, links):
    await links.request(server.address, Command(ECHO), 5)
    first = set(server.links)

    links.drop(server.address)
    await links.request(server.address, Command(ECHO), 5)

    assert set(server.links) - first


async def test_a_oneway_request_arrives(server, links):
    await links.oneway(server.address, Command(ECHO), 5)

    await aeventually(lambda: len(server.seen) == 1)
    assert server.seen[0].is_oneway


async def test_closing_fails_what_waits_and_refuses_what_comes(server, links):
    waiting = asyncio.ensure_future(links.request(server.address, Command(HELD), 5))
    await aeventually(lambda: any(link.under_way for link in server.links))

    await links.close()

    with pytest.raises(ConnectionLost):
        await waiting
    with pytest.raises(ClientClosed):
        await links.request(server.address, Command(ECHO), 5)


async def test_closing_ends_what_is_being_opened(server, links):
    opening = asyncio.ensure_future(links.request(server.address, Command(ECHO), 5))
    await asyncio.sleep(0)

    await links.close()

    with pytest.raises((ClientClosed, ConnectionLost, asyncio.CancelledError)):
        await opening
    await aeventually(lambda: not server.links)
