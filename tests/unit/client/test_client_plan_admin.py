import pytest
from client_stage import NAME_SERVERS, Stage, answer, refuses, route_of, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.admin.lookups import KeyQuery, NewTopic
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError, HeaderError, MessageIllegal, NoRoute, QueryNotFound, Refused
from pyromq.wire import properties
from pyromq.wire.bodies.route_bodies import BrokerData, ClusterTable, encode_cluster
from pyromq.wire.header import read_header
from pyromq.wire.headers.query_headers import QueryMessage
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic
from pyromq.wire.record import Record, encode_host, encode_record

CLUSTER = ClusterTable(
    broker_addr_table={
        "a": BrokerData(cluster="one", broker_name="a", broker_addrs={0: "a:1", 1: "slave:1"}),
        "b": BrokerData(cluster="two", broker_name="b", broker_addrs={0: "b:1"}),
        "c": BrokerData(cluster="two", broker_name="c", broker_addrs={1: "c:1"}),
    },
    cluster_addr_table={"one": ["a"], "two": ["b", "c"]},
)


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.brokers[NAME_SERVERS[0]] = lambda _: answer(body=encode_cluster(CLUSTER))
    stage.brokers.update({"a:1": lambda _: answer(), "b:1": lambda _: answer()})
    return stage


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session()


def deadline(stage: Stage) -> Deadline:
    return Deadline(stage.clock, 6_000)


@pytest.mark.row("PR-18")
@pytest.mark.parametrize(
    ("cluster", "broker", "asked"),
    [(None, None, ["a:1", "b:1"]), ("two", None, ["b:1"]), (None, "a", ["a:1"])],
)
def test_a_topic_is_created_on_the_masters_that_are_meant(
    stage: Stage, session: Session, cluster: str | None, broker: str | None, asked: list[str]
) -> None:
    stage.run(admin.create_topic(session, NewTopic("new", 4), cluster, broker, deadline(stage)))

    assert stage.asked(RequestCode.UPDATE_AND_CREATE_TOPIC) == asked
    header = read_header(UpdateAndCreateTopic, stage.calls[-1].command.ext)
    assert (header.topic, header.read_queue_nums, header.write_queue_nums, header.perm) == ("new", 4, 4, 6)


def test_a_cluster_that_does_not_exist_is_refused_and_the_brokers_named(
    stage: Stage, session: Session
) -> None:
    with pytest.raises(NoRoute, match=r"a \(one\), b \(two\)"):
        stage.run(admin.create_topic(session, NewTopic("new"), "three", None, deadline(stage)))


def test_a_broker_s_refusal_to_create_a_topic_is_raised(stage: Stage, session: Session) -> None:
    stage.brokers["b:1"] = refuses(ResponseCode.SYSTEM_ERROR, "not now")

    with pytest.raises(Refused, match="not now"):
        stage.run(admin.create_topic(session, NewTopic("new"), None, None, deadline(stage)))


def test_what_cannot_be_a_topic_is_not_asked_for(stage: Stage, session: Session) -> None:
    with pytest.raises(MessageIllegal):
        stage.run(admin.create_topic(session, NewTopic("a b"), None, None, deadline(stage)))
    with pytest.raises(ConfigError):
        stage.run(admin.create_topic(session, NewTopic("new", 0), None, None, deadline(stage)))
    assert stage.calls == []


def record(*, at_ms: int, keys: str = "", unique: str = "U", topic: str = "orders") -> bytes:
    return encode_record(
        Record(
            topic=topic,
            body=b"x",
            stored_at_ms=at_ms,
            store_host=encode_host("10.0.0.1", 10911),
            properties=properties.encode({"KEYS": keys, "UNIQ_KEY": unique}),
        )
    )


@pytest.mark.row("PR-18")
def test_messages_with_a_key_come_from_all_brokers_oldest_first(stage: Stage, session: Session) -> None:
    del stage.brokers[NAME_SERVERS[0]]
    stage.routes["orders"] = route_of("a", "b")
    stage.brokers["a:1"] = lambda _: answer(
        body=record(at_ms=2, keys="42 x") + record(at_ms=1, keys="same-hash")
    )
    stage.brokers["b:1"] = lambda _: answer(body=record(at_ms=1, keys="42"))

    found = stage.run(admin.query_message(session, KeyQuery("orders", "42"), deadline(stage)))

    assert [message.stored_at_ms for message in found] == [1, 2]
    assert not read_header(QueryMessage, stage.calls[-1].command.ext).unique_key_query


def test_a_broker_without_the_key_is_passed_over(stage: Stage, session: Session) -> None:
    del stage.brokers[NAME_SERVERS[0]]
    stage.brokers["a:1"] = refuses(ResponseCode.QUERY_NOT_FOUND)
    stage.brokers["b:1"] = lambda _: answer(body=record(at_ms=1, keys="42"))

    found = stage.run(admin.query_message(session, KeyQuery("orders", "42"), deadline(stage)))

    assert len(found) == 1


@pytest.mark.row("PR-18")
def test_a_unique_id_finds_the_first_that_was_stored(stage: Stage, session: Session) -> None:
    del stage.brokers[NAME_SERVERS[0]]
    stage.brokers["a:1"] = lambda _: answer(body=record(at_ms=2, unique="U1"))
    stage.brokers["b:1"] = lambda _: answer(body=record(at_ms=1, unique="U1") + record(at_ms=0, unique="U2"))

    message = stage.run(admin.find_message(session, "orders", "U1", deadline(stage)))

    assert message.stored_at_ms == 1
    assert read_header(QueryMessage, stage.calls[-1].command.ext).unique_key_query


def test_a_unique_id_that_nobody_has_is_not_found(stage: Stage, session: Session) -> None:
    del stage.brokers[NAME_SERVERS[0]]
    stage.brokers.update(dict.fromkeys(("a:1", "b:1"), refuses(ResponseCode.QUERY_NOT_FOUND)))

    with pytest.raises(QueryNotFound, match="U9"):
        stage.run(admin.find_message(session, "orders", "U9", deadline(stage)))


@pytest.mark.row("PR-18", "MM-04")
def test_a_place_id_leads_to_the_broker_whose_address_it_holds(stage: Stage, session: Session) -> None:
    stage.brokers["10.0.0.1:10911"] = lambda _: answer(body=record(at_ms=5))
    place_id = "0A000001" + "00002A9F" + f"{77:016X}"

    message = stage.run(admin.view_message(session, place_id, deadline(stage)))

    assert message.stored_at_ms == 5
    assert stage.asked(RequestCode.VIEW_MESSAGE_BY_ID) == ["10.0.0.1:10911"]


def test_what_is_no_place_id_is_refused_before_anybody_is_asked(stage: Stage, session: Session) -> None:
    with pytest.raises(HeaderError):
        stage.run(admin.view_message(session, "nonsense", deadline(stage)))
    assert stage.calls == []


def test_a_route_is_shown_as_the_name_server_has_it_now(stage: Stage, session: Session) -> None:
    del stage.brokers[NAME_SERVERS[0]]

    assert stage.run(admin.route(session, "orders", deadline(stage))) == stage.routes["orders"]


def test_a_broker_without_any_address_is_not_asked_for_keys(stage: Stage, session: Session) -> None:
    del stage.brokers[NAME_SERVERS[0]]
    stage.routes["orders"] = route_of("a", "b")
    stage.routes["orders"].broker_datas[1].broker_addrs.clear()
    stage.brokers["a:1"] = lambda _: answer(body=record(at_ms=1, keys="42"))

    assert len(stage.run(admin.query_message(session, KeyQuery("orders", "42"), deadline(stage)))) == 1


def test_a_message_of_a_broker_that_left_the_cluster_has_no_broker_s_name(
    stage: Stage, session: Session
) -> None:
    stage.brokers["10.0.0.9:10911"] = lambda _: answer(body=record(at_ms=5))

    message = stage.run(admin.view_message(session, "0A000009" + "00002A9F" + f"{0:016X}", deadline(stage)))

    assert message.queue.broker_name == ""


# In a namespace -------------------------------------------------------------------------------------------


@pytest.fixture
def in_shop(stage: Stage) -> Session:
    stage.routes["shop%orders"] = route_of("a")
    return stage.session(ClientSettings(namespace="shop"))


@pytest.mark.row("PR-18")
def test_a_topic_of_a_namespace_is_created_under_its_full_name(stage: Stage, in_shop: Session) -> None:
    stage.run(admin.create_topic(in_shop, NewTopic("new"), None, "a", deadline(stage)))

    assert read_header(UpdateAndCreateTopic, stage.calls[-1].command.ext).topic == "shop%new"


def test_a_name_that_is_too_long_with_its_namespace_is_refused(stage: Stage, in_shop: Session) -> None:
    with pytest.raises(MessageIllegal, match="130 characters"):
        stage.run(admin.create_topic(in_shop, NewTopic("x" * 125), None, None, deadline(stage)))


def test_the_route_of_a_namespace_s_topic_is_asked_for_by_its_full_name(
    stage: Stage, in_shop: Session
) -> None:
    del stage.brokers[NAME_SERVERS[0]]

    assert stage.run(admin.route(in_shop, "orders", deadline(stage))) == stage.routes["shop%orders"]


@pytest.mark.parametrize("topic", ["orders", "shop%orders"])
def test_messages_of_a_namespace_are_found_and_named_without_it(
    stage: Stage, in_shop: Session, topic: str
) -> None:
    del stage.brokers[NAME_SERVERS[0]]
    stage.brokers["a:1"] = lambda _: answer(body=record(at_ms=1, keys="42", topic="shop%orders"))

    (by_key,) = stage.run(admin.query_message(in_shop, KeyQuery(topic, "42"), deadline(stage)))
    by_id = stage.run(admin.find_message(in_shop, topic, "U", deadline(stage)))

    assert read_header(QueryMessage, stage.calls[-1].command.ext).topic == "shop%orders"
    assert [by_key.topic, by_key.queue.topic, by_id.topic] == ["orders"] * 3


def test_a_message_at_its_place_is_named_without_its_namespace(stage: Stage, in_shop: Session) -> None:
    stage.brokers["10.0.0.1:10911"] = lambda _: answer(body=record(at_ms=5, topic="shop%orders"))

    message = stage.run(admin.view_message(in_shop, "0A000001" + "00002A9F" + f"{0:016X}", deadline(stage)))

    assert (message.topic, message.queue.topic) == ("orders", "orders")
