"""The dashboard on a real Apache 4.9: every view, every question, every change, by HTTP."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from dashboard_stage import dashboard
from harness.servers import Cluster

from pyromq import Message, Producer, PullConsumer, PushConsumer
from pyromq.model import ConsumeFrom
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]


class Site:
    """A dashboard's answers."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        found = re.search('name="csrf" content="([^"]+)"', client.get("/").text)
        assert found is not None
        self._token = {"X-CSRF-Token": found[1]}

    def get(self, path: str, **query: str) -> Any:
        answer = self._client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, **order: object) -> Any:
        answer = self._client.post(path, json=order, headers=self._token)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def apache(running: Callable[[str], Cluster]) -> Cluster:
    return running("apache-4.9")


@pytest.fixture(scope="module")
def site(apache: Cluster) -> Iterator[Site]:
    with dashboard(apache.name_server) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield Site(client)


def test_a_topic_and_a_group_of_apache_s_are_made_shown_moved_and_deleted(
    site: Site, apache: Cluster
) -> None:
    topic, group = f"dash-{uuid4().hex[:8]}", f"dash-group-{uuid4().hex[:8]}"
    said = site.post("/api/topics/put", name=topic, readQueues=2, writeQueues=2)
    assert [one["failure"] for one in said] == [None]
    assert [one["failure"] for one in site.post("/api/groups/put", name=group, retryMaxTimes=3)] == [None]
    with Producer("dash", apache.name_server) as producer:
        for at in range(10):
            producer.send(Message(topic, b'{"id": %d}' % at, keys=[f"k{at}"]))
    with PullConsumer(group, apache.name_server) as reader:
        for queue in reader.queues(topic):
            reader.commit(queue, reader.max_offset(queue))

    shown = eventually(
        lambda: (seen := site.get("/api/topic", name=topic))["messages"] == 10 and seen["groups"] and seen,
        60,
        what="the topic is shown with its reader",
    )
    assert shown["groups"][0]["name"] == group
    assert site.get("/api/group", name=group)["configs"][0]["retryMaxTimes"] == 3
    moved = site.post("/api/offsets/preview", group=group, topic=topic, where="first")
    assert (moved["again"], moved["refusal"]) == (10, None)
    done = site.post("/api/offsets/move", group=group, topic=topic, where="first")
    assert [one["failure"] for one in done["moves"]] == [None, None]
    eventually(lambda: site.get("/api/group", name=group)["lag"] == 10, 60, what="the group is behind")

    assert [one["failure"] for one in site.post("/api/groups/delete", name=group)] == [None]
    # One that has no files: 4.9 unmaps files in a way that Java 17 forbids.
    site.post("/api/topics/put", name=f"{topic}-empty")
    assert site.get("/api/topics", filter=f"{topic}-empty")["total"] == 1
    assert {one["failure"] for one in site.post("/api/topics/delete", name=f"{topic}-empty")} == {None}
    assert site.get("/api/topics", filter=f"{topic}-empty")["total"] == 0


def test_messages_of_apache_s_are_found_by_time_key_and_id(site: Site, apache: Cluster) -> None:
    topic = f"dash-{uuid4().hex[:8]}"
    with Producer("dash", apache.name_server) as producer:
        sent = [producer.send(Message(topic, b"%d" % at, keys=[f"k{at}"])) for at in range(5)]
    found = eventually(
        lambda: len(rows := site.get("/api/messages", topic=topic)["rows"]) == 5 and rows,
        30,
        what="messages",
    )
    assert {row["id"] for row in found} == {one.message_id for one in sent}
    by_key = eventually(
        lambda: site.get("/api/messages", by="key", topic=topic, key="k3")["rows"], 30, what="its index"
    )
    assert [row["id"] for row in by_key] == [sent[3].message_id]
    shown = site.get("/api/message", id=sent[3].offset_message_id)
    assert shown["body"]["text"] == "3"


def test_apache_s_brokers_and_the_members_of_groups_are_shown(site: Site, apache: Cluster) -> None:
    # In its first seconds 4.9 fails to say how it is: it has no second sample yet.
    broker = eventually(
        lambda: (one := site.get("/api/overview")["brokers"][0])["failure"] is None and one,
        60,
        what="the broker says how it is",
    )
    assert broker["role"] == "master"
    assert broker["disk"] is not None
    topic, group = f"dash-{uuid4().hex[:8]}", f"dash-group-{uuid4().hex[:8]}"
    seen: list[object] = []
    consumer = PushConsumer(
        group, apache.name_server, listener=seen.append, consume_from=ConsumeFrom.FIRST_OFFSET
    )
    with Producer("dash", apache.name_server) as producer:
        producer.send(Message(topic, b"1"))
        consumer.subscribe(topic)
        with consumer:
            eventually(lambda: seen, 60, what="the message is consumed")
            rows = eventually(
                lambda: site.get("/api/clients", filter=group)["rows"], 60, what="the member is shown"
            )
            assert rows[0]["language"] == "PYTHON"
            (member,) = site.get("/api/members", group=group, stacks="1")["members"]
            assert member["failure"] is None
            assert "TID" in member["stacks"]
            eventually(lambda: _shows_producer(site, "dash"), 60, what="the producer is shown")


def test_apache_s_cluster_is_examined_and_says_that_it_has_no_accounts(site: Site) -> None:
    site.post("/api/health/examine")
    shown = eventually(lambda: (seen := site.get("/api/health"))["at"] and seen, 120, what="an examination")
    assert shown["failure"] is None
    assert shown["checked"]["brokers"] == 1
    access = site.get("/api/access")
    assert access["rows"] == []
    assert [one["failure"] is not None for one in access["brokers"]] == [True]


def _shows_producer(site: Site, group: str) -> bool:
    shown = site.get("/api/clients", role="producer")
    return any(row["group"] == group for row in shown["rows"])
