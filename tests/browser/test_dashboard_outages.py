"""What a page that is open shows when servers go and come back, and who copies from whom."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dashboard_stage import dashboard
from dashboard_story import told_story
from failover_stage import crash, stage_of
from loop_thread import LoopThread, loop_thread
from namesrv_stage import StageBroker
from page_questions import be_sure
from playwright.sync_api import Locator, Page, expect
from slave_stage import running_pair

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.broker.broker import Broker
from pyromq.clock import SystemClock
from pyromq.config.load import build
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import BrokerProcess, NetSettings
from pyromq.namesrv.namesrv import NameServer
from pyromq.testing.cluster import running_cluster
from pyromq.testing.wire_client import WireClient

Open = Callable[..., Page]


@pytest.fixture
def stage() -> Iterator[LoopThread]:
    with loop_thread() as running:
        yield running


def brokers_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Brokers").get_by_role("row")


def test_a_slave_says_how_far_behind_it_is(open_page: Open, stage: LoopThread, tmp_path: Path) -> None:
    pair = stage.enter(running_pair(tmp_path))
    with dashboard(pair.namesrv_address) as url:
        page = open_page(url)
        rows = brokers_of(page)
        expect(rows.filter(has_text="master")).to_contain_text("1 slave")
        expect(rows.filter(has_text="slave 1")).to_contain_text("up to date")
        with Producer("senders", pair.namesrv_address) as producer:
            producer.send_batch([Message("orders", b"x" * 1_000) for _ in range(20)])
        expect(rows.filter(has_text="master")).to_contain_text("KiB")
        expect(rows.filter(has_text="slave 1")).to_contain_text("up to date")


def test_a_group_that_loses_its_master_shows_the_new_one_with_its_epoch(
    open_page: Open, stage: LoopThread, tmp_path: Path
) -> None:
    group = stage.enter(stage_of(tmp_path))
    master = stage.run(group.master())
    (other,) = group.others(master)
    with dashboard(group.name_server) as url:
        page = open_page(url)
        rows = brokers_of(page)
        expect(rows.filter(has_text=master.address)).to_contain_text("1 slave, in sync, epoch 1")
        expect(rows.filter(has_text=other.address)).to_contain_text("up to date, in sync, epoch 1")
        stage.run(crash(master))
        expect(rows.filter(has_text=other.address).filter(has_text="master")).to_contain_text("epoch 2")
        expect(rows.filter(has_text=master.address)).to_contain_text("gone since")


def test_a_broker_that_goes_stays_in_sight_until_it_is_back(open_page: Open) -> None:
    with running_cluster(brokers=2) as cluster, dashboard(cluster.namesrv_address) as url:
        page = open_page(url)
        row = brokers_of(page).filter(has_text="broker-b")
        expect(row).to_contain_text("answers")
        cluster.stop_broker("broker-b")
        expect(row).to_contain_text("gone since")
        alert = page.get_by_role("alert").filter(has_text="broker-b")
        expect(alert).to_contain_text("Start it again")
        cluster.start_broker("broker-b")
        expect(row).to_contain_text("answers")
        expect(alert).to_have_count(0)


def test_a_broker_that_is_registered_and_silent_is_told_with_the_next_step(open_page: Open) -> None:
    with loop_thread() as stage, running_cluster() as cluster:
        client = stage.enter(WireClient(cluster.namesrv_address))
        stage.run(StageBroker(client, "broker-z", port=9).register())
        with dashboard(cluster.namesrv_address) as url:
            page = open_page(url)
            expect(brokers_of(page).filter(has_text="broker-z")).to_contain_text("does not answer")
            expect(brokers_of(page).filter(has_text="broker-a")).to_contain_text("answers")
            alert = page.get_by_role("alert").filter(has_text="broker-z")
            expect(alert).to_contain_text("127.0.0.1:9")
            expect(alert).to_contain_text("open the way to its address")


def test_what_the_other_brokers_have_is_found_while_one_is_silent(open_page: Open) -> None:
    with loop_thread() as stage, running_cluster() as cluster:
        client = stage.enter(WireClient(cluster.namesrv_address))
        with Producer("senders", cluster.namesrv_address) as producer:
            producer.send(Message("orders", b"still here"))
        stage.run(StageBroker(client, "broker-z", port=9).has_topics("orders").register())
        with dashboard(cluster.namesrv_address) as url:
            page = open_page(f"{url}/messages?topic=orders")
            expect(page.get_by_role("region", name="Messages")).to_contain_text("still here")
            alert = page.get_by_role("alert")
            expect(alert).to_contain_text("What broker-z has is missing")
            expect(alert).to_contain_text("Is the server up")


def test_lag_at_a_broker_that_is_gone_is_not_known_and_not_nothing(open_page: Open) -> None:
    with running_cluster(brokers=2) as cluster, dashboard(cluster.namesrv_address) as url:
        with Admin(cluster.namesrv_address) as admin:
            admin.create_topic("orders", 1)
        with Producer("senders", cluster.namesrv_address) as producer:
            for queue in producer.queues("orders"):
                producer.send(Message("orders", b"1"), queue=queue)
        with PullConsumer("readers", cluster.namesrv_address) as reader:
            for queue in reader.queues("orders"):
                reader.commit(queue, 0)
        page, topic = open_page(f"{url}/group?name=readers"), open_page(f"{url}/topic?name=orders")
        row = (
            page.get_by_role("region", name="Lag of each queue")
            .get_by_role("row")
            .filter(has_text="broker-b")
        )
        expect(page.locator(".facts").first).to_contain_text("2 messages behind")
        cluster.stop_broker("broker-b")
        expect(row).to_contain_text("not known")
        expect(page.locator(".facts").first).to_contain_text("at least 1 message behind")
        for one in (page, topic):
            expect(one.get_by_role("alert")).to_contain_text("broker-b has no master that answers")
        cluster.start_broker("broker-b")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator(".facts").first).to_contain_text("2 messages behind")


class OneNameServer:
    """A broker, and a name server that can go away and come back where it was."""

    def __init__(self, folder: Path) -> None:
        self._settings = NamesrvSettings(listen_port=0, kv_config_path=str(folder / "kv.json"))
        self._store = str(folder / "store")
        self._broker: Broker | None = None

    async def __aenter__(self) -> "OneNameServer":
        await self.start_name_server()
        values = {"listen_port": 0, "namesrv_addr": self.address, "store_path_root_dir": self._store}
        settings = {"register_name_server_period": 10_000, "mapped_file_size_commit_log": 1 << 22}
        self._broker = Broker(build(BrokerProcess, values | settings))
        await self._broker.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._broker is not None
        await self._broker.close()
        await self.name_server.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.name_server.port}"

    async def start_name_server(self) -> None:
        self.name_server = NameServer(self._settings, NetSettings(), clock=SystemClock())
        await self.name_server.start()
        self._settings = dataclasses.replace(self._settings, listen_port=self.name_server.port)


def test_brokers_stay_on_the_page_while_the_name_server_is_away(
    open_page: Open, stage: LoopThread, tmp_path: Path
) -> None:
    servers = stage.enter(OneNameServer(tmp_path))
    with Producer("senders", servers.address) as producer, dashboard(servers.address) as url:
        producer.send(Message("orders", b"1"))
        page, lists = open_page(url), open_page(f"{url}/topics")
        expect(lists.get_by_role("link", name="orders")).to_be_visible()
        stage.run(servers.name_server.close())
        alert = page.get_by_role("alert").filter(has_text="no name server answers")
        expect(alert).to_contain_text("Is it running")
        expect(brokers_of(page).filter(has_text="broker-a")).to_contain_text("answers")
        expect(lists.get_by_role("alert")).to_contain_text("no name server answers")
        expect(lists.get_by_role("alert")).to_contain_text("what was known before")
        # The route is known to the producer, and the broker is asked all the same.
        for _ in range(4):
            producer.send(Message("orders", b"more"))
        row = lists.get_by_role("row").filter(has_text="orders")
        expect(row.get_by_role("cell").nth(3)).to_have_text("5")
        stage.run(servers.start_name_server())
        expect(alert).to_have_count(0)
        expect(lists.get_by_role("alert")).to_have_count(0)
        expect(brokers_of(page).filter(has_text="broker-a")).to_contain_text("answers")


def test_letters_of_a_broker_that_is_away_fail_one_by_one_and_go_when_it_is_back(open_page: Open) -> None:
    with told_story() as story, dashboard(story.name_server) as url:
        page = open_page(f"{url}/dead-letters?group=mail")
        rows = page.get_by_role("region", name="Dead letters").get_by_role("row")
        expect(rows).to_have_count(5)
        rows.nth(1).get_by_role("checkbox").check()
        rows.nth(2).get_by_role("checkbox").check()
        story.cluster.stop_broker("broker-a")
        page.get_by_role("button", name="Replay 2").click()
        be_sure(page, "Replay for good")
        results = page.get_by_role("region", name="Results").get_by_role("row")
        expect(results).to_have_count(3)
        for at in (1, 2):
            expect(results.nth(at)).to_contain_text("failed")
            expect(results.nth(at)).to_contain_text("127.0.0.1")
        story.cluster.start_broker("broker-a")
        page.get_by_role("button", name="Find").click()
        rows.nth(1).get_by_role("checkbox").check()
        page.get_by_role("button", name="Replay").click()
        be_sure(page, "Replay for good")
        expect(results.nth(1)).to_contain_text("replayed")


def test_a_page_goes_on_by_itself_when_the_dashboard_was_started_anew(open_page: Open) -> None:
    with running_cluster() as cluster, Producer("senders", cluster.namesrv_address) as producer:
        with dashboard(cluster.namesrv_address) as url:
            page = open_page(f"{url}/topics")
            expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#live")).to_have_text("reconnecting")
        producer.send(Message("meanwhile", b"1"))
        with dashboard(cluster.namesrv_address, port=int(url.rsplit(":", 1)[1])):
            expect(page.locator("#live")).to_have_text("live")
            expect(page.get_by_role("link", name="meanwhile")).to_be_visible()


def test_a_name_server_that_never_answered_is_told_with_the_next_step(open_page: Open) -> None:
    with dashboard("127.0.0.1:9") as url:
        page = open_page(url)
        alert = page.get_by_role("alert").first
        expect(alert).to_contain_text("127.0.0.1:9")
        expect(alert).to_contain_text("Is it running")
        page.goto(f"{url}/messages?topic=orders")
        expect(page.get_by_role("alert")).to_contain_text("Is the server up")
