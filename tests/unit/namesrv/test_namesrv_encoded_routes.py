"""Routes that are kept encoded are what the table says, whatever happened to it meanwhile."""

from random import Random

import pytest
from effort import times
from namesrv_stage import StageBroker, name_server

from pyromq.codes import VERSION_5, RequestCode
from pyromq.config.settings import NamesrvProcess
from pyromq.errors import Refused
from pyromq.namesrv.encoded_routes import EncodedRoutes, RouteDialect
from pyromq.namesrv.handlers import RouteHandlers
from pyromq.namesrv.key_values import ORDER_TOPIC_CONFIG, KeyValues
from pyromq.namesrv.namesrv_live_settings import NamesrvLiveSettings
from pyromq.namesrv.route_table import BrokerRegistration, RouteTable
from pyromq.net.routes import Request
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.route_bodies import encode_route
from pyromq.wire.bodies.topic_bodies import DataVersion, TopicConfig, TopicConfigTable
from pyromq.wire.command import Command
from pyromq.wire.headers.namesrv_headers import GetRouteInfo

TOPICS = ("orders", "payments", "events")
VERSIONS = (300, 409, VERSION_5)


class Walk:
    """A table in which things happen, and the handlers that answer from it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.table = RouteTable()
        settings = NamesrvLiveSettings(NamesrvProcess())
        self.handlers = RouteHandlers(self.table, KeyValues(None), settings)
        self.now_s = 0.0

    def register(self) -> None:
        random = self.random
        broker_id, name = random.choice((0, 0, 1)), random.choice("ab")
        topics = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=random.choice((4, 8)))
            for topic in TOPICS
            if random.random() < 0.7
        }
        version = DataVersion(timestamp=1, counter=random.randrange(3))
        self.table.register(
            BrokerRegistration(
                cluster=random.choice(("one", "one", "two")),
                broker_name=name,
                broker_id=broker_id,
                address=f"127.0.0.1:{random.choice((1, 2, 3))}",
                ha_address="127.0.0.1:9",
                topics=TopicConfigTable(data_version=version, topic_config_table=topics),
                filter_servers=random.choice(([], [], ["f:1"])),
            ),
            link=random.choice(("x", "y")),
            now_s=self.now_s,
        )

    def step(self) -> None:
        random, table = self.random, self.table
        self.now_s += 1
        what = random.randrange(10)
        if what < 5:
            self.register()
        elif what == 5:
            table.unregister(
                broker_name=random.choice("ab"),
                broker_id=random.choice((0, 1)),
                address=f"127.0.0.1:{random.choice((1, 2, 3))}",
            )
        elif what == 6:
            table.drop_link(random.choice(("x", "y")))
        elif what == 7:
            table.drop_silent(now_s=self.now_s, silence_s=5)
        elif what == 8:
            table.delete_topic(random.choice(TOPICS), random.choice((None, "one", "two")))
        else:
            change = random.choice((table.wipe_write_permission, table.add_write_permission))
            change(random.choice("ab"))

    def answered(self, topic: str, version: int) -> bytes | None:
        command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, version=version)
        try:
            return self.handlers.route(Request(command, GetRouteInfo(topic=topic), None)).body  # type: ignore[arg-type]
        except Refused:
            return None

    def true(self, topic: str, version: int) -> bytes | None:
        route = self.table.route(topic)
        if route is None:
            return None
        return encode_route(route, quoted_keys=version >= VERSION_5, is_5=version >= VERSION_5)


@pytest.mark.parametrize("seed", range(times(10)))
def test_after_whatever_happened_the_answer_is_what_the_table_says(seed: int) -> None:
    walk, found = Walk(seed), 0
    for _ in range(60):
        walk.step()
        for topic in TOPICS:
            for version in VERSIONS:
                # The second time it is kept.
                for _ in range(2):
                    told = walk.answered(topic, version)
                    if version == VERSION_5:
                        assert told == walk.true(topic, version)
                    found += told is not None
                if version != VERSION_5:
                    fresh = RouteHandlers(walk.table, KeyValues(None), NamesrvLiveSettings(NamesrvProcess()))
                    walk.table.on_changed = walk.handlers._cache.forget
                    command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, version=version)
                    request = Request(command, GetRouteInfo(topic=topic), None)  # type: ignore[arg-type]
                    if told is not None:
                        assert told == fresh.route(request).body
    assert found, "the walk met no route"


def test_what_is_kept_has_a_limit() -> None:
    cache, dialect = EncodedRoutes(bytes_max=3_000), RouteDialect(quoted_keys=False, is_5=False, order=None)
    for number in range(100):
        cache.keep(f"topic-{number}", dialect, b"x" * 500)
        assert cache.kept_bytes <= 3_000
    assert cache.find("topic-99", dialect) == b"x" * 500
    assert cache.find("topic-0", dialect) is None
    cache.forget("topic-99")
    assert cache.find("topic-99", dialect) is None
    cache.keep("large", dialect, b"x" * 3_000)
    assert cache.find("large", dialect) is None


async def test_an_order_that_was_changed_is_told_at_once() -> None:
    async with name_server(order_message_enable=True) as server, WireClient(server.address) as client:
        await StageBroker(client).has_topics("orders").register()
        for order in ("broker-a:4", "broker-a:8"):
            fields = {"namespace": ORDER_TOPIC_CONFIG, "key": "orders", "value": order}
            await client.ask(RequestCode.PUT_KV_CONFIG, fields)
            for _ in range(2):
                answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
                assert order.encode() in answer.body


async def test_a_broker_that_registers_the_same_again_changes_nothing_and_one_that_came_back_is_read() -> (
    None
):
    async with name_server() as server, WireClient(server.address) as client:

        async def route() -> bytes | None:
            answer = await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
            return answer.body if answer.code == 0 else None

        async with WireClient(server.address) as connection:
            broker = StageBroker(connection).has_topics("orders")
            await broker.register()
            first = await route()
            assert first is not None
            # What an operator changed here lasts until the broker has another version.
            await client.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
            wiped = await route()
            assert wiped != first
            await broker.register()
            assert await route() == wiped
            broker.has_topics("payments")
            await broker.register()
            assert await route() == first

        async def is_gone() -> bool:
            return await route() is None

        await aeventually(is_gone, what="the broker is gone")
        async with WireClient(server.address) as connection:
            # The same bytes as before: the table has forgotten them meanwhile.
            back = StageBroker(connection)
            back.topics, back.version = broker.topics, broker.version
            await back.register()
            assert await route() == first
