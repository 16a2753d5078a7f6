import pytest
from client_stage import NAME_SERVERS, Stage, refuses, route_of, two_brokers

from pyromq.client.name_servers import NameServers, name_server_addresses
from pyromq.client.plans.route_plans import ask_name_servers, publish_route, refresh_routes, subscribe_route
from pyromq.client.steps import Alone, Deadline, request
from pyromq.codes import ClientCode, RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import (
    ConfigError,
    ConnectFailed,
    NoNameServerKnown,
    NoRoute,
    RequestTimeout,
    ServerFailed,
)


@pytest.fixture
def stage() -> Stage:
    return two_brokers()


def three_seconds(stage: Stage) -> Deadline:
    return Deadline(stage.clock, 3_000)


@pytest.mark.row("PR-07")
def test_a_route_is_asked_for_at_the_first_send_only(stage: Stage) -> None:
    session = stage.session()

    for _ in range(3):
        stage.run(publish_route(session, "orders", three_seconds(stage)))

    assert stage.topics_asked() == ["orders"]


@pytest.mark.row("PR-06", "PR-08")
def test_a_topic_nobody_knows_gets_the_template_s_route_with_four_queues_a_broker(stage: Stage) -> None:
    session = stage.session()

    known = stage.run(publish_route(session, "new", three_seconds(stage)))

    assert stage.topics_asked() == ["new", "TBW102"]
    assert len(known.write_queues) == 2 * min(4, 8)
    assert {queue.topic for queue in known.write_queues} == {"new"}
    stage.run(publish_route(session, "new", three_seconds(stage)))
    assert stage.topics_asked() == ["new", "TBW102"]


@pytest.mark.row("PR-08")
@pytest.mark.parametrize(("wanted", "template", "queues"), [(4, 8, 4), (16, 8, 8), (1, 8, 1)])
def test_the_smaller_of_wanted_and_template_queues_counts(
    stage: Stage, wanted: int, template: int, queues: int
) -> None:
    stage.routes["TBW102"] = route_of("a", queues=template, perm=7)
    session = stage.session(ClientSettings(default_topic_queue_nums=wanted))

    known = stage.run(publish_route(session, "new", three_seconds(stage)))

    assert len(known.write_queues) == queues


@pytest.mark.row("PR-11")
def test_without_a_template_a_new_topic_has_no_route_and_the_error_says_what_to_do(stage: Stage) -> None:
    del stage.routes["TBW102"]

    with pytest.raises(NoRoute) as caught:
        stage.run(publish_route(stage.session(), "new", three_seconds(stage)))

    for word in ("'new'", *NAME_SERVERS, "a at a:1; b at b:1", "updateTopic", "autoCreateTopicEnable"):
        assert word in str(caught.value)


def test_without_any_broker_the_error_says_so(stage: Stage) -> None:
    stage.routes.clear()

    with pytest.raises(NoRoute, match="no broker is registered there: start one"):
        stage.run(publish_route(stage.session(), "new", three_seconds(stage)))


def test_a_topic_without_a_readable_queue_is_said_to_be_so(stage: Stage) -> None:
    stage.routes["orders"] = route_of("a", perm=2)

    with pytest.raises(NoRoute, match="on these brokers: a, but none of them has a readable queue"):
        stage.run(subscribe_route(stage.session(), "orders", three_seconds(stage)))


def test_a_topic_without_a_writable_queue_is_said_to_be_so(stage: Stage) -> None:
    stage.routes["orders"] = route_of("a", perm=4)

    with pytest.raises(NoRoute, match="writable"):
        stage.run(publish_route(stage.session(), "orders", three_seconds(stage)))


def test_reading_a_topic_never_takes_the_template_s_route(stage: Stage) -> None:
    with pytest.raises(NoRoute):
        stage.run(subscribe_route(stage.session(), "new", three_seconds(stage)))

    assert stage.topics_asked() == ["new"]


@pytest.mark.row("PR-07", "NS-14", "PR-15")
def test_a_refresh_notices_a_route_that_changed(stage: Stage) -> None:
    session = stage.session()
    stage.run(publish_route(session, "orders", three_seconds(stage)))
    stage.routes["orders"] = route_of("b", queues=1)

    stage.run(refresh_routes(session))

    known = stage.run(publish_route(session, "orders", three_seconds(stage)))
    assert [queue.broker_name for queue in known.write_queues] == ["b"]


@pytest.mark.row("PR-08")
def test_a_refresh_replaces_the_template_s_route_by_the_topic_s_own(stage: Stage) -> None:
    session = stage.session()
    stage.run(publish_route(session, "new", three_seconds(stage)))
    stage.run(refresh_routes(session))
    assert session.routes.get("new") is not None

    stage.routes["new"] = route_of("a", queues=2)
    stage.run(refresh_routes(session))

    known = stage.run(publish_route(session, "new", three_seconds(stage)))
    assert len(known.write_queues) == 2


def test_a_refresh_goes_on_when_name_servers_fail(stage: Stage) -> None:
    session = stage.session()
    stage.run(publish_route(session, "orders", three_seconds(stage)))
    stage.down.update(NAME_SERVERS)

    stage.run(refresh_routes(session))

    assert session.routes.get("orders") is not None


@pytest.mark.row("NS-17", "NS-18")
def test_a_name_server_that_fails_is_left_for_the_next_and_that_one_is_kept(stage: Stage) -> None:
    session = stage.session()
    stage.down.add(NAME_SERVERS[0])

    stage.run(publish_route(session, "orders", three_seconds(stage)))
    stage.down.clear()
    stage.run(publish_route(session, "new", three_seconds(stage)))

    assert stage.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC) == [
        NAME_SERVERS[0],
        NAME_SERVERS[1],
        NAME_SERVERS[1],
        NAME_SERVERS[1],
    ]


@pytest.mark.row("NS-18")
def test_a_silent_name_server_leaves_time_for_the_next(stage: Stage) -> None:
    stage.silent.add(NAME_SERVERS[0])

    known = stage.run(publish_route(stage.session(), "orders", three_seconds(stage)))

    assert known.write_queues
    assert stage.calls[0].timeout_s == pytest.approx(1.5)


@pytest.mark.row("NS-17")
def test_name_servers_are_started_with_at_random() -> None:
    addresses = [f"ns{number}:9876" for number in range(32)]

    assert len({NameServers(addresses).current for _ in range(64)}) > 1


def test_when_no_name_server_answers_the_error_names_them_all(stage: Stage) -> None:
    stage.down.update(NAME_SERVERS)

    with pytest.raises(ConnectFailed) as caught:
        stage.run(publish_route(stage.session(), "orders", three_seconds(stage)))

    for word in (*NAME_SERVERS, "pyromq up", "NAMESRV_ADDR"):
        assert word in str(caught.value)


def test_silent_name_servers_use_up_the_time_and_no_more(stage: Stage) -> None:
    stage.silent.update(NAME_SERVERS)
    before = stage.clock.now_ms()

    with pytest.raises(RequestTimeout):
        stage.run(publish_route(stage.session(), "orders", three_seconds(stage)))

    assert stage.clock.now_ms() - before <= 3_000


def test_an_answer_that_is_an_error_is_an_answer(stage: Stage) -> None:
    stage.brokers[NAME_SERVERS[0]] = refuses(ResponseCode.SYSTEM_ERROR, "broken")

    with pytest.raises(ServerFailed, match="broken"):
        stage.run(publish_route(stage.session(), "orders", three_seconds(stage)))

    assert len(stage.calls) == 1


def test_an_old_route_is_better_than_none_while_name_servers_are_away(stage: Stage) -> None:
    session = stage.session()
    stage.run(publish_route(session, "orders", three_seconds(stage)))
    session.routes.mark_stale("orders")
    stage.clock.advance(2_000)
    stage.down.update(NAME_SERVERS)

    known = stage.run(publish_route(session, "orders", three_seconds(stage)))

    assert known.write_queues


def test_any_question_goes_to_the_name_servers_in_turn(stage: Stage) -> None:
    stage.down.add(NAME_SERVERS[0])
    stage.brokers[NAME_SERVERS[1]] = refuses(ResponseCode.SUCCESS)

    got = stage.run(
        ask_name_servers(stage.session(), request(RequestCode.GET_BROKER_CLUSTER_INFO), three_seconds(stage))
    )

    assert got.code == ResponseCode.SUCCESS


def test_addresses_come_from_the_argument_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1;env:2")

    assert name_server_addresses("arg:1; arg:2;arg:1") == ("arg:1", "arg:2")
    assert name_server_addresses(None) == ("env:1", "env:2")


@pytest.mark.row("SM-12")
def test_no_address_at_all_is_an_error_that_says_where_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)

    with pytest.raises(NoNameServerKnown, match="NAMESRV_ADDR") as caught:
        name_server_addresses(None)

    assert caught.value.code == ClientCode.NO_NAME_SERVER == 10004


@pytest.mark.parametrize("address", ["localhost", "host:", ":9876", "host:port", "host:70000"])
def test_an_address_without_host_and_port_is_refused_by_name(address: str) -> None:
    with pytest.raises(ConfigError, match="host:port"):
        name_server_addresses(address)


def test_whoever_waited_for_its_turn_finds_the_route_that_another_brought(stage: Stage) -> None:
    session = stage.session()
    plan = publish_route(session, "orders", three_seconds(stage))
    waiting = next(plan)
    assert isinstance(waiting, Alone)

    stage.run(publish_route(session, "orders", three_seconds(stage)))
    stage.run(waiting.begin())

    assert stage.topics_asked() == ["orders"]


def test_a_refusal_of_the_template_s_route_is_not_taken_for_its_absence(stage: Stage) -> None:
    answers = iter([refuses(ResponseCode.TOPIC_NOT_EXIST), refuses(ResponseCode.SYSTEM_ERROR, "broken")])
    stage.brokers[NAME_SERVERS[0]] = lambda command: next(answers)(command)

    with pytest.raises(ServerFailed, match="broken"):
        stage.run(publish_route(stage.session(), "new", three_seconds(stage)))


def test_a_budget_that_is_used_up_is_a_timeout(stage: Stage) -> None:
    deadline = three_seconds(stage)
    stage.clock.advance(3_000)

    with pytest.raises(RequestTimeout, match="3000 ms"):
        stage.run(publish_route(stage.session(), "orders", deadline))

    assert stage.calls == []


def test_a_topic_that_name_servers_forgot_is_not_asked_for_at_every_send(stage: Stage) -> None:
    session = stage.session()
    stage.run(publish_route(session, "orders", three_seconds(stage)))
    del stage.routes["orders"]
    session.routes.mark_stale("orders")
    stage.clock.advance(2_000)

    for _ in range(3):
        assert stage.run(publish_route(session, "orders", three_seconds(stage))).write_queues

    assert stage.topics_asked() == ["orders", "orders"]
