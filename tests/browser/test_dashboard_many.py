"""A cluster with 1,000 topics and 2,000 groups: answers stay small, and the pages usable."""

import json
from collections.abc import Callable, Iterator
from urllib.request import urlopen

import pytest
from dashboard_stage import dashboard
from playwright.sync_api import Page, expect

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.operation_bodies import encode_group_configs, encode_topic_configs
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.command import Command

TOPIC_COUNT = 1_000
GROUP_COUNT = 2_000
#: Bytes of an answer that a page is drawn of, not compressed.
ANSWER_BYTES_MAX = 40_000

Open = Callable[..., Page]


def fill(address: str) -> None:
    """Make the topics and the groups, each of which has read of one topic."""
    links = BlockingLinks(NetSettings())
    topics = [
        TopicConfig(topic_name=f"topic-{at:04}", read_queue_nums=4, write_queue_nums=4)
        for at in range(TOPIC_COUNT)
    ]
    groups = [SubscriptionGroupConfig(group_name=f"group-{at:04}") for at in range(GROUP_COUNT)]
    try:
        for code, body in (
            (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, encode_topic_configs(topics)),
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, encode_group_configs(groups)),
        ):
            answer = links.request(address, Command(code, body=body), 60)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        for at in range(GROUP_COUNT):
            fields = {
                "consumerGroup": f"group-{at:04}",
                "topic": f"topic-{at % TOPIC_COUNT:04}",
                "queueId": "0",
                "commitOffset": "0",
            }
            answer = links.request(address, Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=fields), 30)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
    finally:
        links.close()


@pytest.fixture(scope="module")
def many() -> Iterator[str]:
    with running_cluster() as cluster:
        fill(cluster.broker_addresses[0])
        with dashboard(cluster.namesrv_address, round_s=1.0) as url:
            yield url


def size_of(url: str) -> int:
    with urlopen(url, timeout=30) as answer:
        return len(answer.read())


@pytest.mark.parametrize(
    "path",
    [
        "/topics",
        "/api/overview",
        "/api/topics",
        "/api/topics?kind=all&sort=rate",
        "/api/groups",
        "/api/groups?sort=lag",
        "/api/clients",
        "/api/topic?name=topic-0001",
        "/api/group?name=group-0001",
    ],
)
def test_an_answer_stays_small_however_many_there_are(many: str, path: str) -> None:
    assert size_of(many + path) < ANSWER_BYTES_MAX


def test_a_thousand_topics_are_filtered_and_turned_over(open_page: Open, many: str) -> None:
    page = open_page(f"{many}/topics")
    place = page.locator(".pager .place")
    expect(place).to_have_text("1–50 of 1,000")
    page.get_by_role("button", name="Next").click()
    expect(place).to_have_text("51–100 of 1,000")
    expect(page.get_by_role("link", name="topic-0050")).to_be_visible()
    page.get_by_label("Filter").fill("-0777")
    expect(place).to_be_hidden()
    page.get_by_role("link", name="topic-0777").click()
    groups = page.get_by_role("region", name="Groups that read it")
    expect(groups).to_contain_text("group-0777")
    expect(groups).to_contain_text("group-1777")


def test_two_thousand_groups_are_filtered_and_turned_over(open_page: Open, many: str) -> None:
    page = open_page(f"{many}/groups?page=40")
    expect(page.locator(".pager .place")).to_have_text("1,951–2,000 of 2,000")
    page.get_by_label("Filter").fill("group-1234")
    expect(page.get_by_role("link", name="group-1234")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="group-1234")).to_contain_text("offline")


def test_every_topic_is_looked_at_though_no_round_asks_for_all(many: str) -> None:
    def held() -> list[object]:
        with urlopen(f"{many}/api/topics?sort=name&page=20", timeout=30) as answer:
            return [row["messages"] for row in json.loads(answer.read())["rows"]]

    eventually(lambda: held() == [0] * 50, 60, what="the last fifty topics were looked at")
