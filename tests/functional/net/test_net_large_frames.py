"""Answers and requests above the high-water mark: the connection hears the next request, with TLS too."""

import asyncio
import contextlib

import pytest
import trustme

from pyromq.clock import SystemClock
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.net.links import Links
from pyromq.net.routes import Answer, RequestTable, Route
from pyromq.net.server import Server
from pyromq.wire.command import Command

ECHO, SIZED, LATER = 10, 11, 12
MIB = 1 << 20


async def answer_later(request):
    await asyncio.sleep(0)
    return Answer(body=bytes(int(request.body)))


@pytest.fixture(params=["plain", "tls"])
def settings(request, tmp_path):
    if request.param == "plain":
        return NetSettings()
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(tmp_path / "server.key"))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "server.pem"))
    return NetSettings(
        tls_server_cert_path=str(tmp_path / "server.pem"),
        tls_server_key_path=str(tmp_path / "server.key"),
        use_tls=True,
    )


@contextlib.asynccontextmanager
async def serving(settings):
    table = RequestTable(
        [
            Route(ECHO, lambda request: Answer(body=request.body)),
            Route(SIZED, lambda request: Answer(body=bytes(int(request.body)))),
            Route(LATER, answer_later),
        ]
    )
    server = Server(table, settings, clock=SystemClock(), name="test")
    host, port = await server.start("127.0.0.1", 0)
    links = Links(settings)
    try:
        yield server, links, f"{host}:{port}"
    finally:
        await links.close()
        await server.close()


async def ask_all(links, address, code, bodies):
    asking = [links.request(address, Command(code, body=body), 30) for body in bodies]
    return await asyncio.gather(*asking)


@pytest.mark.parametrize("code", [SIZED, LATER])
@pytest.mark.parametrize(("count", "size"), [(1, 4 * MIB), (1, 12 * MIB), (16, 256 * 1024)])
async def test_a_request_after_large_answers_is_answered_on_the_same_connection(settings, code, count, size):
    async with serving(settings) as (server, links, address):
        for _ in range(3):
            answers = await ask_all(links, address, code, [b"%d" % size] * count)
            assert [len(answer.body) for answer in answers] == [size] * count
            (last,) = await ask_all(links, address, ECHO, [b"and now?"])
            assert last.body == b"and now?"

        assert len(server.links) == 1


async def test_a_blocking_client_goes_on_after_large_answers(settings):
    async with serving(settings) as (server, _, address):
        links = BlockingLinks(settings)

        def story():
            for _ in range(3):
                large = links.request(address, Command(SIZED, body=b"%d" % (5 * MIB)), 30)
                many = [Command(SIZED, body=b"%d" % (256 * 1024)) for _ in range(17)]
                total = sum(len(answer.body) for answer in links.request_all(address, many, 30))
                yield len(large.body), total, links.request(address, Command(ECHO, body=b"x"), 30).body

        heard = await asyncio.to_thread(lambda: list(story()))
        assert heard == [(5 * MIB, 17 * 256 * 1024, b"x")] * 3
        assert len(server.links) == 1
        links.close()


async def test_large_requests_and_large_answers_do_not_wait_for_each_other(settings):
    async with serving(settings) as (server, links, address):
        answers = await ask_all(links, address, ECHO, [bytes(MIB)] * 48)

        assert [len(answer.body) for answer in answers] == [MIB] * 48
        assert len(server.links) == 1


async def test_a_caller_that_asks_for_more_than_fits_waits_for_room(settings):
    async with serving(settings) as (server, links, address):
        answers = await ask_all(links, address, ECHO, [bytes(4 * MIB)] * 24)

        assert [len(answer.body) for answer in answers] == [4 * MIB] * 24
        assert len(server.links) == 1
