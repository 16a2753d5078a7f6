import logging
from collections.abc import Callable

import pytest
from client_stage import Stage, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.name_servers import NameServers, name_server_addresses
from pyromq.client.plans import presence_plans
from pyromq.client.plans.route_plans import publish_route, refresh_name_servers
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import ClientCode, RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError, ConnectFailed
from pyromq.net.discovery import read_addresses

URL = "http://jmenv.tbsite.net:8080/rocketmq/nsaddr"


class Enough(Exception):
    """The test has seen enough of an endless plan."""


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.pages[URL] = b"ns1:9876;ns2:9876\r\nignored"
    return stage


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session(name_servers=(URL,))


def find(stage: Stage, session: Session) -> None:
    stage.run(publish_route(session, "orders", Deadline(stage.clock, 3_000)))


@pytest.mark.row("AD-01")
def test_several_name_servers_are_given_by_the_program() -> None:
    assert name_server_addresses("a:9876;b:9876") == ("a:9876", "b:9876")


@pytest.mark.row("AD-02", "AD-03")
def test_the_program_comes_before_the_setting_and_that_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    settings = ClientSettings(namesrv_addr="set:1", namesrv_domain="jmenv.tbsite.net")

    assert name_server_addresses("arg:1", settings) == ("arg:1",)
    assert name_server_addresses(None, settings) == ("set:1",)
    assert name_server_addresses(None, ClientSettings(namesrv_domain="d")) == ("env:1",)
    monkeypatch.delenv("NAMESRV_ADDR")
    assert name_server_addresses(None, ClientSettings(namesrv_domain="jmenv.tbsite.net")) == (URL,)


@pytest.mark.row("AD-04", "AD-05")
@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (ClientSettings(namesrv_domain="jmenv.tbsite.net"), URL),
        (ClientSettings(namesrv_domain="a.b:80"), "http://a.b:80/rocketmq/nsaddr"),
        (
            ClientSettings(namesrv_domain="a.b", namesrv_domain_subgroup="other"),
            "http://a.b:8080/rocketmq/other",
        ),
        (
            ClientSettings(namesrv_domain="a.b", unit_name="north"),
            "http://a.b:8080/rocketmq/nsaddr-north?nofix=1",
        ),
    ],
)
def test_a_domain_makes_an_http_address(settings: ClientSettings, url: str) -> None:
    assert name_server_addresses(None, settings) == (url,)


@pytest.mark.row("AD-04")
def test_an_http_address_may_be_given_as_it_is() -> None:
    assert name_server_addresses("http://a.b/names") == ("http://a.b/names",)


def test_a_wrong_setting_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="namesrv_addr"):
        name_server_addresses(None, ClientSettings(namesrv_addr="nowhere"))


@pytest.mark.row("AD-04")
def test_the_http_address_is_asked_before_the_first_name_server(stage: Stage, session: Session) -> None:
    find(stage, session)
    find(stage, session)

    assert stage.fetched == [URL]
    assert stage.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC) == ["ns1:9876"]
    assert session.name_servers.addresses == ("ns1:9876", "ns2:9876")


@pytest.mark.row("AD-04")
@pytest.mark.parametrize(
    "upkeep",
    [
        presence_plans.keep_producer_known,
        presence_plans.keep_routes_fresh,
        presence_plans.follow_name_servers,
    ],
)
def test_the_http_address_is_asked_again_after_ten_seconds_and_then_every_two_minutes(
    stage: Stage, upkeep: Callable[[Session], Plan[None]]
) -> None:
    session = stage.session(name_servers=(URL,))
    began_ms, asked_s = stage.clock.now_ms(), []

    def look(_seconds: float) -> None:
        while len(asked_s) < len(stage.fetched):
            asked_s.append((last_ms[0] - began_ms) // 1_000)
        last_ms[0] = stage.clock.now_ms()
        if stage.clock.now_ms() - began_ms > 300_000:
            raise Enough

    last_ms = [began_ms]
    stage.on_pause = look
    with pytest.raises(Enough):
        stage.run(upkeep(session))

    assert asked_s == [10, 130, 250]


@pytest.mark.row("AD-04")
def test_name_servers_that_changed_are_asked_from_then_on(stage: Stage, session: Session) -> None:
    find(stage, session)
    stage.pages[URL] = b"ns2:9876"
    stage.clock.advance(10_000)

    stage.run(refresh_name_servers(session))

    assert session.name_servers.in_order() == ("ns2:9876",)


def test_nothing_is_fetched_before_it_is_due_or_without_an_http_address(
    stage: Stage, session: Session
) -> None:
    stage.run(refresh_name_servers(session))
    stage.clock.advance(999_000)
    stage.run(refresh_name_servers(stage.session()))

    assert stage.fetched == []


@pytest.mark.row("AD-04")
def test_the_name_servers_stay_when_the_http_address_is_away(
    stage: Stage, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    find(stage, session)
    del stage.pages[URL]
    stage.clock.advance(10_000)

    with caplog.at_level(logging.WARNING, "pyromq.client"):
        stage.run(refresh_name_servers(session))

    assert session.name_servers.addresses == ("ns1:9876", "ns2:9876")
    assert "does not answer" in caplog.text


@pytest.mark.row("SM-12")
@pytest.mark.parametrize("page", [None, b"", b"\n", b"nowhere"])
def test_an_http_address_that_tells_nothing_is_named_with_the_settings(
    stage: Stage, session: Session, page: bytes | None
) -> None:
    del stage.pages[URL]
    if page is not None:
        stage.pages[URL] = page

    with pytest.raises(ConnectFailed, match="namesrv_domain") as caught:
        find(stage, session)

    assert caught.value.code == ClientCode.NO_NAME_SERVER


def test_whoever_waited_for_the_name_servers_does_not_fetch_them_again(
    stage: Stage, session: Session
) -> None:
    plan = publish_route(session, "orders", Deadline(stage.clock, 3_000))
    learning = next(plan).begin()  # type: ignore[union-attr]
    waiting = next(learning)
    find(stage, session)

    stage.run(waiting.begin())  # type: ignore[union-attr]

    assert stage.fetched == [URL]


def test_addresses_are_read_from_the_first_line() -> None:
    assert read_addresses(b" a:1;b:2 \r\nc:3\n", URL) == ("a:1", "b:2")


def test_the_current_name_server_stays_if_it_is_still_one() -> None:
    servers = NameServers(("a:1", "b:1"), start=1)

    assert servers.replace(("c:1", "b:1"))
    assert servers.current == "b:1"
    assert not servers.replace(("b:1", "c:1"))


def test_a_name_server_that_went_meanwhile_is_not_stayed_with() -> None:
    servers = NameServers(("a:1", "b:1"), start=0)
    servers.replace(("c:1",))

    servers.use("a:1")

    assert servers.current == "c:1"


def test_before_the_first_answer_there_is_no_name_server() -> None:
    servers = NameServers((URL,))

    assert servers.in_order() == ()
    assert URL in servers.current
