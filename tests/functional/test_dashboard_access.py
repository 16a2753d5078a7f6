"""Who may look at a dashboard and who may change something there, as a browser or an attacker asks for it."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
from dashboard_stage import dashboard

from pyromq.dashboard.app import Access
from pyromq.dashboard.security import FAILURES_MAX
from pyromq.testing.cluster import running_cluster

Serve = Callable[[Access], httpx.Client]

PASSWORD = "correct horse"
NEW_TOPIC = {"name": "made-by-http"}


@pytest.fixture(scope="module")
def name_server() -> Iterator[str]:
    with running_cluster() as cluster:
        yield cluster.namesrv_address


@pytest.fixture
def serve(name_server: str) -> Iterator[Serve]:
    with ExitStack() as closing:

        def served(access: Access) -> httpx.Client:
            url = closing.enter_context(dashboard(name_server, access))
            return closing.enter_context(httpx.Client(base_url=url, timeout=30))

        yield served


def token(client: httpx.Client) -> dict[str, str]:
    found = re.search('name="csrf" content="([^"]+)"', client.get("/").text)
    assert found is not None
    return {"X-CSRF-Token": found[1]}


def log_in(client: httpx.Client, password: str) -> httpx.Response:
    return client.post("/login", data={"password": password, "next": "/topics"})


def test_every_answer_has_the_headers_that_keep_a_page_safe(serve: Serve) -> None:
    client = serve(Access())
    for path in ("/", "/static/core.js", "/api/overview", "/api/nothing", "/login"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "uvicorn" not in headers.get("server", "")


@pytest.mark.parametrize("path", ["/health/live", "/livez", "/healthz", "/health/ready", "/readyz"])
def test_health_is_asked_without_a_login_and_the_doctors_page_is_not(serve: Serve, path: str) -> None:
    client = serve(Access(password=PASSWORD))
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert all(check == {"ok": True} for check in answer.json()["checks"].values())
    assert "set-cookie" not in answer.headers
    assert client.get("/health").status_code == 303


def test_a_dashboard_that_does_not_find_its_cluster_is_ready_to_say_so(serve: Serve) -> None:
    with dashboard("127.0.0.1:1") as url:
        said = httpx.get(f"{url}/health/ready", timeout=30).json()
        shown = httpx.get(f"{url}/api/overview", timeout=30).json()
    assert (said["ready"], list(said["checks"])) == (True, ["loop", "serving", "rounds"])
    assert "127.0.0.1:1" in shown["outage"]


def test_no_page_has_a_script_or_a_style_within_or_from_elsewhere(serve: Serve) -> None:
    client = serve(Access())
    for path in ("/", "/topics", "/message", "/dead-letters"):
        text = client.get(path).text
        assert re.findall(r"<script(?![^>]* src=\"/static/)", text) == []
        assert re.findall(r"<style| style=| on\w+=", text) == []
        assert "//" not in text.replace("<!doctype", "")


def test_the_cookie_is_seen_by_no_script_and_sent_by_no_other_site(serve: Serve) -> None:
    cookie = serve(Access()).get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie


def test_the_cookie_is_for_tls_alone_behind_a_proxy_that_speaks_it(serve: Serve) -> None:
    over_tls = {"X-Forwarded-Proto": "https"}
    assert serve(Access()).get("/", headers=over_tls).headers["set-cookie"].endswith("; Secure")
    client = serve(Access(password=PASSWORD))
    opened = client.post("/login", data={"password": PASSWORD}, headers=over_tls)
    assert opened.headers["set-cookie"].endswith("; Secure")


def test_two_dashboards_of_one_machine_leave_each_other_s_visits_alone(serve: Serve) -> None:
    one, other = serve(Access()), serve(Access())
    own = token(one)
    # A browser sends cookies to every port of a machine, and takes new ones from each.
    other.cookies = one.cookies
    other.get("/")
    one.cookies = other.cookies
    # Past the door, where the order itself is refused.
    assert one.post("/api/topics/put", json={"name": "a b"}, headers=own).status_code == 400


def test_a_change_without_the_page_s_token_is_refused(serve: Serve) -> None:
    client = serve(Access())
    client.get("/")
    refused = client.post("/api/topics/put", json=NEW_TOPIC)
    assert refused.status_code == 403
    assert "did not come from this page" in refused.json()["error"]
    for guess in (b"guessed", b"gu\xe9ss"):
        wrong = client.post("/api/topics/put", json=NEW_TOPIC, headers={b"X-CSRF-Token": guess})
        assert wrong.status_code == 403


def test_a_change_with_the_token_of_another_visit_is_refused(serve: Serve) -> None:
    client = serve(Access())
    with httpx.Client(base_url=client.base_url) as other:
        foreign = token(other)
    client.get("/")
    assert client.post("/api/topics/put", json=NEW_TOPIC, headers=foreign).status_code == 403


def test_a_dashboard_that_only_looks_refuses_every_change(serve: Serve) -> None:
    client = serve(Access(is_read_only=True))
    own = token(client)
    for path in (
        *("/api/topics/put", "/api/topics/delete", "/api/groups/put", "/api/groups/delete"),
        *("/api/offsets/move", "/api/letters/replay"),
        *("/api/access/put", "/api/access/delete", "/api/access/white"),
    ):
        refused = client.post(path, json=NEW_TOPIC, headers=own)
        assert refused.status_code == 403
        assert "--read-only" in refused.json()["error"]


def test_a_dashboard_that_only_looks_previews_and_examines(serve: Serve) -> None:
    client = serve(Access(is_read_only=True))
    order = {"group": "g", "topic": "nowhere", "where": "first"}
    # The cluster has no such topic; the order is not refused at the door.
    assert client.post("/api/offsets/preview", json=order, headers=token(client)).status_code == 404
    assert client.post("/api/health/examine", json={}, headers=token(client)).status_code == 200
    assert client.post("/api/health/examine", json={}).status_code == 403


def test_a_name_that_is_not_the_server_s_is_refused(serve: Serve) -> None:
    client = serve(Access(host_names=frozenset({"localhost", "mq.example.org"})))
    port = client.base_url.port
    assert client.get("/", headers={"Host": f"evil.example.org:{port}"}).status_code == 400
    assert client.get("/", headers={"Host": f"mq.example.org:{port}"}).status_code == 200
    assert client.get("/", headers={"Host": f"localhost:{port}"}).status_code == 200


def test_nothing_is_shown_before_the_login(serve: Serve) -> None:
    client = serve(Access(password=PASSWORD))
    page = client.get("/topics?filter=a")
    assert page.status_code == 303
    assert page.headers["location"] == "/login?next=%2Ftopics%3Ffilter%3Da"
    for path in (
        *("/api/overview", "/api/live/overview", "/api/messages?topic=a", "/api/letters?group=a"),
        *("/api/access", "/api/health", "/api/members?group=a", "/api/body?id=a"),
    ):
        assert client.get(path).status_code == 401
    assert client.post("/api/topics/put", json=NEW_TOPIC).status_code == 401


def test_the_password_opens_and_the_log_out_closes(serve: Serve) -> None:
    client = serve(Access(password=PASSWORD))
    assert log_in(client, "wrong").status_code == 403
    assert client.get("/api/overview").status_code == 401
    opened = log_in(client, PASSWORD)
    assert (opened.status_code, opened.headers["location"]) == (303, "/topics")
    assert client.get("/api/overview").status_code == 200
    kept = {"Cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}
    assert client.post("/api/logout", headers=token(client)).status_code == 200
    assert client.get("/api/overview", headers=kept).status_code == 401


def test_after_many_wrong_passwords_even_the_right_one_waits(serve: Serve) -> None:
    client = serve(Access(password=PASSWORD))
    for _ in range(FAILURES_MAX):
        assert log_in(client, "guess").status_code == 403
    assert log_in(client, PASSWORD).status_code == 429


def test_passwords_that_come_all_at_once_are_looked_at_no_more_often(serve: Serve) -> None:
    client = serve(Access(password=PASSWORD))
    with ThreadPoolExecutor(3 * FAILURES_MAX) as several:
        answers = list(several.map(lambda _: log_in(client, "guess").status_code, range(3 * FAILURES_MAX)))
    assert sorted(answers) == [403] * FAILURES_MAX + [429] * 2 * FAILURES_MAX


def test_right_passwords_are_not_counted(serve: Serve) -> None:
    client = serve(Access(password=PASSWORD))
    for _ in range(FAILURES_MAX + 1):
        assert log_in(client, PASSWORD).status_code == 303


def test_a_wrong_password_is_in_the_log_without_its_text(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    log_in(serve(Access(password=PASSWORD)), "nearly right")
    assert "127.0.0.1: a wrong password" in caplog.text
    assert "nearly right" not in caplog.text


def test_who_has_logged_out_sees_no_more(serve: Serve) -> None:
    client = serve(Access(password=PASSWORD))
    log_in(client, PASSWORD)
    own = token(client)
    with client.stream("GET", "/api/live/overview") as live:
        lines = live.iter_lines()
        assert next(line for line in lines if line.startswith("event")) == "event: view"
        client.post("/api/logout", headers=own)
        # The end, and no error: httpx would raise one after its thirty seconds.
        assert all(isinstance(line, str) for line in lines)


@pytest.mark.parametrize(
    "path", ["//evil.example.org", "/\\evil.example.org", "https://evil.example.org", ""]
)
def test_a_login_leads_to_no_other_site(serve: Serve, path: str) -> None:
    client = serve(Access(password=PASSWORD))
    opened = client.post("/login", data={"password": PASSWORD, "next": path})
    assert opened.headers["location"] == "/"


def test_an_id_with_a_foreign_address_makes_no_connection(serve: Serve) -> None:
    # 10.1.2.3:80, in the form of a broker's id.
    answer = serve(Access()).get("/api/message", params={"id": "0A010203000000500000000000000000"})
    assert answer.status_code == 400
    assert "no id that a broker of this cluster gave" in answer.json()["error"]


@pytest.mark.parametrize(
    "order",
    [
        b"[]",
        b"{",
        pytest.param(b"[" * 100_000, id="deep"),
        b'{"name": 1}',
        b'{"name": "a b"}',
        b'{"name": "t", "readQueues": 100000}',
    ],
)
def test_an_order_that_makes_no_sense_is_refused_with_the_reason(serve: Serve, order: bytes) -> None:
    client = serve(Access())
    answer = client.post("/api/topics/put", content=order, headers=token(client))
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert answer.json()["next"]


def test_the_access_never_shows_its_password() -> None:
    assert PASSWORD not in repr(Access(password=PASSWORD))
