"""A message that a producer sent again, to one broker and to another: a recall takes all copies."""

import json
from collections.abc import Iterator

import pytest

import pyromq
from pyromq.cli.messages.delayed import run_recall
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.errors import IllegalOperation
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.requests import send_v2_fields
from pyromq.wire.command import Command

pytestmark = pytest.mark.row("DE-10")

HOUR_MS = 3_600_000


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(brokers=2) as cluster:
        yield cluster


def send_copy(address: str, topic: str, unique_id: str, delay_ms: int = HOUR_MS) -> str:
    """Store a copy of a timed message on a broker, and return the handle that it gives."""
    properties = {"UNIQ_KEY": unique_id, "TIMER_DELAY_MS": str(delay_ms)}
    ext = {name: str(value) for name, value in send_v2_fields(topic, properties).items()}
    links = BlockingLinks(NetSettings())
    answer = links.request(address, Command(RequestCode.SEND_MESSAGE_V2, ext=ext, body=b"x"), 10)
    links.close()
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return (answer.ext or {})["recallHandle"]


def send_copies(cluster: ThreadCluster, topic: str, unique_id: str) -> list[str]:
    """Store a message twice on one broker and once on another, as a producer does that tries again."""
    first, second = cluster.broker_addresses
    with pyromq.Admin(cluster.namesrv_address) as admin:
        admin.create_topic(topic)
    return [send_copy(address, topic, unique_id) for address in (first, first, second)]


@pytest.mark.parametrize("which", [0, 2])
def test_a_recall_takes_the_copies_on_all_brokers(cluster: ThreadCluster, which: int) -> None:
    handle = send_copies(cluster, "orders", "TWICE")[which]
    with pyromq.Producer("producers", cluster.namesrv_address) as producer:
        assert producer.recall("orders", handle) == "TWICE"
        with pytest.raises(IllegalOperation):
            producer.recall("orders", handle)

    with pyromq.Admin(cluster.namesrv_address) as admin:
        assert admin.waiting("orders") == []


def test_the_shell_recalls_all_copies_by_one_id(
    cluster: ThreadCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    send_copies(cluster, "orders", "TWICE")

    assert run_recall(["TWICE"], name_server=cluster.namesrv_address, is_json=True)

    assert json.loads(capsys.readouterr().out) == {"id": "TWICE", "recalled": True, "reason": None}
    with pyromq.Admin(cluster.namesrv_address) as admin:
        assert admin.waiting("orders") == []


def test_the_handles_of_all_copies_may_be_given_as_a_list_shows_them(
    cluster: ThreadCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    handles = send_copies(cluster, "orders", "TWICE")

    assert run_recall([*handles, "TWICE"], name_server=cluster.namesrv_address, is_json=False)

    assert capsys.readouterr().out.count("recalled") == 4
