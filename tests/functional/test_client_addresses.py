"""Name servers that an HTTP address tells, and fail-over between them."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from client_faces import Face

from pyromq import ClientSettings, ConnectFailed, Message, SendStatus
from pyromq.net.http import fetch
from pyromq.testing.cluster import ThreadCluster, running_cluster

DEAD = "127.0.0.1:1"


class Pages(BaseHTTPRequestHandler):
    """Answers /rocketmq/nsaddr with what the test wants."""

    pages: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.pages.get(self.path, (404, b"not here"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep silent."""


@pytest.fixture
def pages() -> dict[str, tuple[int, bytes]]:
    return {}


@pytest.fixture
def domain(pages: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    handler = type("ThesePages", (Pages,), {"pages": pages})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


@pytest.mark.row("AD-04", "AD-05")
def test_a_domain_tells_the_name_servers(
    face: Face, cluster: ThreadCluster, domain: str, pages: dict[str, tuple[int, bytes]]
) -> None:
    pages["/rocketmq/nsaddr"] = (200, f"{cluster.namesrv_address}\n".encode())

    with face.Producer("pg", settings=ClientSettings(namesrv_domain=domain)) as producer:
        assert producer.send(Message("told-by-http", b"x")).status is SendStatus.SEND_OK


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


def test_what_is_fetched_is_the_body(domain: str, pages: dict[str, tuple[int, bytes]]) -> None:
    pages["/"] = (200, b"a:1;b:2")

    assert fetch(f"http://{domain}/", 20.0) == b"a:1;b:2"


@pytest.mark.parametrize("status", [204, 404, 500])
def test_another_status_than_200_is_a_failure(
    domain: str, pages: dict[str, tuple[int, bytes]], status: int
) -> None:
    pages["/"] = (status, b"")

    with pytest.raises(ConnectFailed, match=str(status)):
        fetch(f"http://{domain}/", 20.0)


def test_an_http_address_where_nobody_listens_is_a_failure() -> None:
    with pytest.raises(ConnectFailed, match="does not answer"):
        fetch(f"http://{DEAD}/", 20.0)
