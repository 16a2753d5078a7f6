"""Our name server's answers beside those recorded from 4.9.8, byte for byte.

The recorded requests are sent again as they were, by clients in Java, C++ and JavaScript. Before each, the
brokers register what the recorded answer says that they had.
"""

import asyncio
import contextlib
import struct
from pathlib import Path

import pytest
from namesrv_stage import StageBroker, name_server

from pyromq.codes import RequestCode
from pyromq.testing.golden import pair_up, read_answers, read_frames
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.route_bodies import decode_route
from pyromq.wire.bodies.topic_bodies import TopicConfig

GOLDEN = Path(__file__).parent / "golden"
ANSWERS = read_answers(GOLDEN / "golden_4.9.8.txt")
NAME_SERVER_PORT = 9876
ROUTE = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)


class BareConnection:
    """Sends a header's bytes as they are, and returns the answer's."""

    def __init__(self, address):
        self._host, self._port = address.rsplit(":", 1)

    async def __aenter__(self):
        self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))
        return self

    async def __aexit__(self, *_):
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def ask(self, frame):
        mark = frame.serializer << 24 | len(frame.header)
        body = frame.body or b""
        self._writer.write(struct.pack(">iI", 4 + len(frame.header) + len(body), mark) + frame.header + body)
        length, mark = struct.unpack(">iI", await self._reader.readexactly(8))
        header = await self._reader.readexactly(mark & 0xFFFFFF)
        return header, await self._reader.readexactly(length - 4 - len(header))


async def register_what_the_answer_says(brokers, body):
    for queues in decode_route(body).queue_datas:
        topic = TopicConfig(
            topic_name=brokers["topic"],
            read_queue_nums=queues.read_queue_nums,
            write_queue_nums=queues.write_queue_nums,
            perm=queues.perm,
            topic_sys_flag=queues.topic_sys_flag,
        )
        broker = brokers[queues.broker_name]
        if broker.topics.get(topic.topic_name) != topic:
            await broker.has_topics(topic).register()


@pytest.mark.row("NS-15", "NS-07")
@pytest.mark.parametrize("client", ["java_4.9.8", "cpp_1x_wheel", "alions_js"])
async def test_recorded_questions_for_routes_get_the_recorded_answers(client):
    exchanges = [
        exchange
        for exchange in pair_up(read_frames(GOLDEN / f"frames_{client}.jsonl"))
        if exchange.request.port == NAME_SERVER_PORT and exchange.request.command.code == ROUTE
    ]
    assert exchanges
    async with (
        name_server() as server,
        WireClient(server.address) as first,
        WireClient(server.address) as second,
        BareConnection(server.address) as connection,
    ):
        brokers = {
            "broker-a": StageBroker(first),
            "broker-b": StageBroker(second, "broker-b", port=10931),
        }
        for exchange in exchanges:
            if exchange.answer.body:
                topic = exchange.request.command.ext["topic"]
                await register_what_the_answer_says(brokers | {"topic": topic}, exchange.answer.body)

            header, body = await connection.ask(exchange.request)

            assert header == exchange.answer.header, f"line {exchange.request.line}"
            assert body == exchange.answer.body, f"line {exchange.request.line}"


async def test_an_empty_namespace_is_answered_as_recorded():
    golden = ANSWERS["kv list"]
    async with name_server() as server, WireClient(server.address) as client:
        await client.ask(
            RequestCode.GET_KVLIST_BY_NAMESPACE,
            {"namespace": "ORDER_TOPIC_CONFIG"},
            opaque=golden.command.opaque,
        )

        assert client.raw_headers[golden.command.opaque] == golden.header


async def test_the_settings_are_shown_in_the_recorded_form():
    golden = ANSWERS["ns config"]
    async with name_server() as server, WireClient(server.address) as client:
        opaque = golden.command.opaque
        answer = await client.ask(RequestCode.GET_NAMESRV_CONFIG, opaque=opaque)

        assert client.raw_headers[opaque] == golden.header

    recorded = dict(line.split("=", 1) for line in golden.body.decode().splitlines())
    ours = dict(line.split("=", 1) for line in answer.body.decode().splitlines())
    # These name this machine's files and ports, or are limits of another server.
    differ = {
        "kvConfigPath",
        "configStorePath",
        "listenPort",
        "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
    }
    shared = recorded.keys() & ours.keys() - differ
    assert {key: ours[key] for key in shared} == {key: recorded[key] for key in shared}
    assert {"orderMessageEnable", "configBlackList", "serverChannelMaxIdleTimeSeconds"} <= shared
