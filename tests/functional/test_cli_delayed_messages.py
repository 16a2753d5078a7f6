"""What `pyromq delayed` prints, run in this process against a cluster."""

import io
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from pyromq import Message, Producer, SendResult
from pyromq.cli.messages.delayed import DelayedQuery, run_list, run_recall, run_show
from pyromq.testing.cluster import ThreadCluster, running_cluster

pytestmark = pytest.mark.row("DE-10")

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def producer(cluster: ThreadCluster) -> Iterator[Producer]:
    with Producer("cli", cluster.namesrv_address) as producer:
        yield producer


def send(producer: Producer, topic: str, body: bytes, **more: Any) -> SendResult:
    return producer.send(Message(topic, body, delay=timedelta(hours=1), **more))


def of_topic(topic: str, limit: int | None = None) -> DelayedQuery:
    return DelayedQuery(topic=topic, key=None, begin_ms=0, end_ms=None, limit=limit)


def records(capsys: Captured) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_table_has_a_line_for_each_message_and_says_how_many_wait(
    cluster: ThreadCluster, producer: Producer, capsys: Captured
) -> None:
    sent = send(producer, "table", b"first\n", tags="paid", keys=["k1", "k2"])
    send(producer, "table", "né".encode() * 50)

    run_list(of_topic("table"), name_server=cluster.namesrv_address, is_json=False)

    head, first, second, footer = capsys.readouterr().out.splitlines()
    assert head.split() == ["DUE", "IN", "TOPIC", "TAG", "KEYS", "ID", "BODY"]
    assert first.split()[2] == "59m"
    assert first.split()[4:] == ["table", "paid", "k1", "k2", sent.message_id, "first\\n"]
    assert second.endswith("…")
    assert footer.startswith("2 listed, ")
    assert footer.endswith(" wait in all")


def test_more_than_a_page_is_listed_and_a_limit_is_kept(
    cluster: ThreadCluster, producer: Producer, capsys: Captured
) -> None:
    for number in range(300):
        producer.send(Message("pages", b"%d" % number, delay=7200 + number))
    address = cluster.namesrv_address

    run_list(of_topic("pages"), name_server=address, is_json=True)
    everything = [int(one["body"]) for one in records(capsys)]
    run_list(of_topic("pages", limit=280), name_server=address, is_json=True)
    some = [int(one["body"]) for one in records(capsys)]

    assert everything == list(range(300))
    assert some == list(range(280))


def test_one_message_is_shown_by_its_id_or_its_handle(
    cluster: ThreadCluster, producer: Producer, capsys: Captured
) -> None:
    sent = send(producer, "shown", b"body", keys="k", properties={"city": "Turku"})
    address = cluster.namesrv_address
    assert sent.recall_handle is not None

    assert run_show(sent.message_id, name_server=address, is_json=False)
    text = capsys.readouterr().out
    assert run_show(sent.recall_handle, name_server=address, is_json=True)
    (record,) = records(capsys)

    assert sent.recall_handle in text
    assert "Turku" in text
    assert (record["topic"], record["body"], record["keys"]) == ("shown", "body", ["k"])
    assert record["recall_handle"] == sent.recall_handle
    assert record["queue"] == sent.queue.queue_id


def test_messages_are_recalled_by_id_by_handle_and_from_standard_input(
    cluster: ThreadCluster, producer: Producer, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_id, by_handle, read = (send(producer, "recalled", b"%d" % number) for number in range(3))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{read.message_id}\n\n"))
    address, words = cluster.namesrv_address, [by_id.message_id, str(by_handle.recall_handle), "-"]

    assert run_recall(words, name_server=address, is_json=False)

    assert capsys.readouterr().out.count("recalled  ") == 3
    run_list(of_topic("recalled"), name_server=address, is_json=True)
    assert records(capsys) == []


def test_what_does_not_wait_is_told_and_the_others_are_recalled_all_the_same(
    cluster: ThreadCluster, producer: Producer, capsys: Captured
) -> None:
    gone, there = send(producer, "half", b"1"), send(producer, "half", b"2")
    address = cluster.namesrv_address
    run_recall([gone.message_id], name_server=address, is_json=True)
    capsys.readouterr()

    words = [gone.message_id, str(gone.recall_handle), there.message_id]
    assert not run_recall(words, name_server=address, is_json=True)

    told = records(capsys)
    assert [one["recalled"] for one in told] == [False, False, True]
    assert all("delivered or recalled" in one["reason"] for one in told[:2])
    assert not run_show(gone.message_id, name_server=address, is_json=False)
    assert "delivered or recalled" in capsys.readouterr().err
