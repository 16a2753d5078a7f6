import pytest
from client_stage import route_of

from pyromq.client.route_cache import RouteCache
from pyromq.errors import RemoteProtocolError
from pyromq.model import MessageQueue
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.route_bodies import BrokerData, BrokerQueues, TopicRoute


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cache(clock: ManualClock) -> RouteCache:
    return RouteCache(clock)


def queue_names(queues: tuple[MessageQueue, ...]) -> list[str]:
    return [f"{queue.broker_name}{queue.queue_id}" for queue in queues]


@pytest.mark.row("PR-13")
def test_write_queues_are_sorted_by_broker_and_numbered_from_zero(cache: RouteCache) -> None:
    cache.put("t", route_of("b", "a", queues=2))

    known = cache.get("t")

    assert known is not None
    assert queue_names(known.write_queues) == ["a0", "a1", "b0", "b1"]


@pytest.mark.row("PR-13")
@pytest.mark.parametrize(("perm", "writable", "readable"), [(6, 1, 1), (4, 0, 1), (2, 1, 0), (0, 0, 0)])
def test_permissions_decide_which_queues_there_are(
    cache: RouteCache, perm: int, writable: int, readable: int
) -> None:
    cache.put("t", route_of("a", queues=1, perm=perm))

    known = cache.get("t")

    assert known is not None
    assert (len(known.write_queues), len(known.read_queues)) == (writable, readable)


@pytest.mark.row("PR-13")
def test_a_broker_without_a_master_is_read_but_not_written(cache: RouteCache) -> None:
    cache.put(
        "t",
        TopicRoute(
            queue_datas=[BrokerQueues(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6)],
            broker_datas=[BrokerData(cluster="c", broker_name="a", broker_addrs={1: "slave:1"})],
        ),
    )

    known = cache.get("t")

    assert known is not None
    assert known.write_queues == ()
    assert queue_names(known.read_queues) == ["a0", "a1"]
    assert cache.reading_address("a") == (1, "slave:1")


@pytest.mark.row("PR-14")
@pytest.mark.row("NS-19")
def test_an_ordered_topic_has_the_queues_of_its_configuration(cache: RouteCache) -> None:
    cache.put("t", route_of("a", queues=8, order="b:1;a:2"))

    known = cache.get("t")

    assert known is not None
    assert known.is_ordered
    assert queue_names(known.write_queues) == ["b0", "a0", "a1"]


def test_an_order_configuration_that_says_nothing_is_refused_by_name(cache: RouteCache) -> None:
    with pytest.raises(RemoteProtocolError, match="a:many"):
        cache.put("t", route_of("a", order="a:many"))


@pytest.mark.row("PR-15")
def test_the_same_route_in_another_order_changes_nothing(cache: RouteCache, clock: ManualClock) -> None:
    cache.put("t", route_of("a", "b"))
    before = cache.get("t")
    clock.advance(5)

    changed = cache.put("t", route_of("b", "a"))

    after = cache.get("t")
    assert not changed
    assert before is not None
    assert after is not None
    assert after.write_queues is before.write_queues
    assert after.fetched_at_ms == before.fetched_at_ms + 5


@pytest.mark.row("PR-15")
def test_another_route_replaces_queues_and_addresses(cache: RouteCache) -> None:
    cache.put("t", route_of("a"))

    changed = cache.put("t", route_of("b"))

    known = cache.get("t")
    assert changed
    assert known is not None
    assert {queue.broker_name for queue in known.write_queues} == {"b"}
    assert cache.master_address("a") is None
    assert cache.master_address("b") == "b:1"


@pytest.mark.row("PR-16")
def test_a_queue_is_its_topic_broker_and_number() -> None:
    queue = MessageQueue("t", "a", 1)

    assert queue == MessageQueue("t", "a", 1)
    assert len({queue, MessageQueue("t", "a", 1)}) == 1
    assert len({queue, MessageQueue("u", "a", 1), MessageQueue("t", "b", 1), MessageQueue("t", "a", 2)}) == 4


def test_the_wanted_slave_is_read_from_else_its_neighbour_else_any(cache: RouteCache) -> None:
    addresses = {0: "m:1", 2: "s2:1"}
    broker = BrokerData(cluster="c", broker_name="a", broker_addrs=addresses)
    cache.put("t", TopicRoute(broker_datas=[broker]))

    assert cache.reading_address("a", 0) == (0, "m:1")
    assert cache.reading_address("a", 2) == (2, "s2:1")
    assert cache.reading_address("a", 1) == (2, "s2:1")
    assert cache.reading_address("a", 7) == (0, "m:1")
    assert cache.reading_address("unknown", 0) is None


def test_a_stale_route_is_asked_for_again_but_not_at_once(cache: RouteCache, clock: ManualClock) -> None:
    cache.put("t", route_of("a"))
    cache.mark_stale("t")

    assert not cache.wants_refresh("t")
    clock.advance(1_000)
    assert cache.wants_refresh("t")
    cache.put("t", route_of("a"))
    clock.advance(60_000)
    assert not cache.wants_refresh("t")


def test_each_master_is_listed_once(cache: RouteCache) -> None:
    cache.put("t", route_of("a", "b"))
    cache.put("u", route_of("a"))

    assert sorted(cache.master_addresses()) == ["a:1", "b:1"]
