"""Name servers that an HTTP address tells, and fail-over between them."""

from collections.abc import Iterator
from typing import Any

import pytest
from client_faces import Face
from http_pages import Pages, served_pages

from pyromq import ClientSettings, ConnectFailed, Message, SendStatus
from pyromq.client import client_session
from pyromq.net.http import fetch
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

DEAD = "127.0.0.1:1"


@pytest.fixture
def pages() -> Iterator[Pages]:
    with served_pages() as pages:
        yield pages


@pytest.fixture
def domain(pages: Pages) -> str:
    return pages.address


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


@pytest.mark.row("AD-04", "AD-05")
def test_a_domain_tells_the_name_servers(
    face: Face, cluster: ThreadCluster, domain: str, pages: Pages
) -> None:
    pages.answers["/rocketmq/nsaddr"] = (200, f"{cluster.namesrv_address}\n".encode())

    with face.Producer("pg", settings=ClientSettings(namesrv_domain=domain)) as producer:
        assert producer.send(Message("told-by-http", b"x")).status is SendStatus.SEND_OK


@pytest.mark.row("AD-04")
@pytest.mark.parametrize("kind", ["Producer", "PushConsumer", "PullConsumer", "Admin"])
def test_every_client_asks_again_by_itself(
    face: Face, cluster: ThreadCluster, pages: Pages, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    pages.says("/rocketmq/nsaddr", cluster.namesrv_address)
    # Not ten seconds: a test does not wait for them. The look at the routes is half a minute away.
    monkeypatch.setattr(client_session, "FIRST_REFRESH_MS", 50)
    given: dict[str, Any] = {"listener": lambda _message: True} if kind == "PushConsumer" else {}

    names = () if kind == "Admin" else ("g",)
    client = getattr(face, kind)(*names, settings=ClientSettings(namesrv_domain=pages.address), **given)
    if kind == "PushConsumer":
        client.subscribe("told-by-http")
    with client:
        # A push consumer needed them at its start.
        eventually(lambda: len(pages.asked) == (2 if kind == "PushConsumer" else 1))


@pytest.mark.row("AD-01", "AD-03")
def test_a_name_server_that_is_dead_is_passed_by(face: Face, cluster: ThreadCluster) -> None:
    for _ in range(3):
        with face.Producer("pg", f"{DEAD};{cluster.namesrv_address}") as producer:
            assert producer.send(Message("fail-over", b"x")).status is SendStatus.SEND_OK


def test_a_domain_that_does_not_answer_is_named(face: Face, domain: str) -> None:
    with (
        face.Producer("pg", settings=ClientSettings(namesrv_domain=domain)) as producer,
        pytest.raises(ConnectFailed, match=r"status 404.*namesrv_domain"),
    ):
        producer.send(Message("nobody-knows", b"x"))


def test_what_is_fetched_is_the_body(domain: str, pages: Pages) -> None:
    pages.answers["/"] = (200, b"a:1;b:2")

    assert fetch(f"http://{domain}/", 20.0) == b"a:1;b:2"


@pytest.mark.parametrize("status", [204, 404, 500])
def test_another_status_than_200_is_a_failure(domain: str, pages: Pages, status: int) -> None:
    pages.answers["/"] = (status, b"")

    with pytest.raises(ConnectFailed, match=str(status)):
        fetch(f"http://{domain}/", 20.0)


def test_an_http_address_where_nobody_listens_is_a_failure() -> None:
    with pytest.raises(ConnectFailed, match="does not answer"):
        fetch(f"http://{DEAD}/", 20.0)
