"""A test message that a page orders: where it goes, which are refused and why, and who may send one."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, SHOP, SHOP_SECRET, write_accounts
from dashboard_stage import dashboard

from pyromq import Admin, PullConsumer
from pyromq.config.settings import ClientSettings
from pyromq.dashboard.app import Access
from pyromq.testing.cluster import ThreadCluster, running_cluster

Order = Callable[..., httpx.Response]

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        with Admin(cluster.namesrv_address) as admin:
            admin.create_topic("orders", 2)
        yield cluster


@pytest.fixture(scope="module")
def url(cluster: ThreadCluster) -> Iterator[str]:
    with dashboard(cluster.namesrv_address) as url:
        yield url


def ordered(url: str, order: dict[str, Any]) -> httpx.Response:
    with httpx.Client(base_url=url, timeout=30) as client:
        found = re.search('name="csrf" content="([^"]+)"', client.get("/").text)
        assert found is not None
        # As a browser writes it: half a character too.
        return client.post(
            "/api/messages/send", content=json.dumps(order), headers={"X-CSRF-Token": found[1]}
        )


@pytest.fixture
def send(url: str) -> Order:
    return lambda **order: ordered(url, {"topic": "orders", "body": "hello"} | order)


def read(cluster: ThreadCluster, topic: str, queue_id: int, offset: int) -> Any:
    with PullConsumer("reads-tests", cluster.namesrv_address) as reader:
        queue = next(one for one in reader.queues(topic) if one.queue_id == queue_id)
        return reader.pull(queue, offset).messages[0]


def test_a_message_goes_with_all_that_it_says_to_the_queue_that_is_chosen(
    send: Order, cluster: ThreadCluster
) -> None:
    answer = send(
        body="grüße",
        tag="paid",
        keys="order-7 test",
        properties={"region": "eu"},
        broker="broker-a",
        queue=1,
    )

    sent = answer.json()
    assert (answer.status_code, sent["status"], sent["meaning"]) == (200, "SEND_OK", None)
    assert (sent["broker"], sent["queue"], sent["isDelayed"]) == ("broker-a", 1, False)
    found = read(cluster, "orders", 1, sent["offset"])
    assert found.body.decode() == "grüße"
    assert (found.tags, found.keys, found.properties["region"]) == ("paid", ["order-7", "test"], "eu")
    assert (found.message_id, found.offset_message_id) == (sent["id"], sent["placeId"])


def test_the_link_of_a_sent_message_leads_to_it(send: Order, url: str) -> None:
    sent = send(body="to be looked at").json()

    shown = httpx.get(f"{url}/api/message", params={"id": sent["placeId"], "topic": "orders"}).json()

    assert (shown["id"], shown["body"]["text"]) == (sent["id"], "to be looked at")


def test_a_message_waits_for_a_level_or_for_any_time(send: Order, url: str, cluster: ThreadCluster) -> None:
    level, span = send(delayLevel=18).json(), send(delaySeconds=3_600.5).json()

    assert (level["isDelayed"], span["isDelayed"]) == (True, True)
    shown = httpx.get(f"{url}/api/message", params={"id": level["placeId"]}).json()
    assert (shown["topic"], shown["properties"]["DELAY"]) == ("SCHEDULE_TOPIC_XXXX", "18")
    with Admin(cluster.namesrv_address) as admin:
        assert span["id"] in {one.message.message_id for one in admin.waiting("orders")}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic": ""}, "say the topic"),
        ({"topic": " "}, "say the topic"),
        ({"topic": "no space"}, "no space"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "SCHEDULE_TOPIC_XXXX"),
        ({"topic": "%RETRY%billing"}, "no topic of an application"),
        ({"topic": "%DLQ%billing"}, "no topic of an application"),
        ({"body": ""}, "the body is empty"),
        ({"body": None}, "the body is empty"),
        ({"body": "x" * (4 * MIB + 1)}, "4194304 are the limit"),
        ({"body": "half \ud800"}, "half a character at 5"),
        ({"tag": 7}, "tag is a text"),
        ({"keys": ["a"]}, "keys is a text"),
        ({"properties": ["a"]}, "properties are texts by their names"),
        ({"properties": {"a": 1}}, "properties are texts by their names"),
        ({"properties": {" ": "x"}}, "a property has no name"),
        ({"properties": {"empty": ""}}, "empty"),
        ({"properties": {"KEYS": "x"}}, "KEYS"),
        ({"properties": {"a": "\x01"}}, "a"),
        ({"properties": {f"p{at}": "" for at in range(101)}}, "101 properties"),
        ({"delayLevel": 0}, "delayLevel is a whole number from 1 to 18, not 0"),
        ({"delayLevel": 19}, "not 19"),
        ({"delayLevel": 1.5}, "not 1.5"),
        ({"delaySeconds": 0}, "delaySeconds is a number above 0"),
        ({"delaySeconds": -1}, "not -1"),
        ({"delaySeconds": "soon"}, "not 'soon'"),
        ({"delaySeconds": True}, "not True"),
        ({"delaySeconds": 1e300}, "delaySeconds is a number above 0"),
        ({"delayLevel": 1, "delaySeconds": 1}, "not both"),
        ({"queue": 0}, "say the broker whose queue it is"),
        ({"broker": "broker-x", "queue": 0}, "it is on broker-a"),
        ({"broker": "broker-a", "queue": 2}, "queue is a whole number from 0 to 1, not 2"),
    ],
)
def test_a_wrong_order_is_refused_and_says_why(send: Order, wrong: dict[str, Any], said: str) -> None:
    answer = send(**wrong)

    assert answer.status_code == 400, answer.text
    assert said in answer.json()["error"]
    assert answer.json()["next"]


def test_a_topic_that_is_not_there_is_not_made_by_a_test(send: Order, cluster: ThreadCluster) -> None:
    answer = send(topic="ordres")

    assert answer.status_code == 404
    assert "ordres" in answer.json()["error"]
    with Admin(cluster.namesrv_address) as admin:
        assert "ordres" not in admin.topics()


def test_what_a_broker_refuses_is_told_with_its_cause(send: Order) -> None:
    """Its broker lets a message wait for a limited time only (timerMaxDelaySec)."""
    answer = send(delaySeconds=9 * 365 * 86_400)

    assert answer.status_code == 400
    assert "max delay" in answer.json()["error"]


def test_the_log_tells_who_sent_and_not_what(send: Order, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyromq.dashboard"):
        send(body="a secret of somebody", properties={"token": "hunter2"}, tag="paid")

    assert "/api/messages/send" in caplog.text
    assert "paid" in caplog.text
    assert "a secret of somebody" not in caplog.text
    assert "hunter2" not in caplog.text


# Who may -------------------------------------------------------------------------------------------------


def test_a_page_of_another_site_sends_nothing(url: str) -> None:
    answer = httpx.post(f"{url}/api/messages/send", json={"topic": "orders", "body": "forged"})

    assert answer.status_code == 403
    assert "did not come from this page" in answer.json()["error"]


def test_a_dashboard_that_only_looks_sends_nothing(cluster: ThreadCluster) -> None:
    with dashboard(cluster.namesrv_address, Access(is_read_only=True)) as url:
        answer = ordered(url, {"topic": "orders", "body": "hello"})

    assert answer.status_code == 403
    assert "--read-only" in answer.json()["error"]


def test_without_the_password_nothing_is_sent(cluster: ThreadCluster) -> None:
    with dashboard(cluster.namesrv_address, Access(password="correct horse")) as url:
        answer = httpx.post(f"{url}/api/messages/send", json={"topic": "orders", "body": "hello"})

    assert answer.status_code == 401


def test_an_account_that_may_not_write_a_topic_is_told_so(tmp_path: Path) -> None:
    conf = write_accounts(tmp_path)
    operator = ClientSettings(access_key=OPERATOR, secret_key=OPERATOR_SECRET)
    shop = ClientSettings(access_key=SHOP, secret_key=SHOP_SECRET)
    with ExitStack() as closing:
        cluster = closing.enter_context(running_cluster(acl_enable=True, acl_folder=str(conf)))
        admin = closing.enter_context(Admin(cluster.namesrv_address, operator))
        admin.create_topic("salaries", 1)
        url = closing.enter_context(dashboard(cluster.namesrv_address, settings=shop))
        answer = ordered(url, {"topic": "salaries", "body": "hello"})

    assert answer.status_code == 502
    assert "salaries" in answer.json()["error"]
    assert "PYROMQ_ACCESS_KEY" in answer.json()["next"]
