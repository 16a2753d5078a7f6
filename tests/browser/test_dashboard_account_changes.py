"""Accounts made, changed and deleted in a real browser, and looked for in the files of both brokers."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, SHOP, SHOP_SECRET, write_accounts
from dashboard_stage import dashboard
from page_questions import be_sure
from playwright.sync_api import Locator, Page, Request, Response, expect

from pyromq import Admin, Message, Producer
from pyromq.broker.access.account_files import DEFAULT_NAME, AccessFile, read_file
from pyromq.client.plans.admin.account_plans import AccountChange
from pyromq.config.settings import ClientSettings
from pyromq.dashboard.app import Access
from pyromq.errors import PyroError
from pyromq.testing.cluster import ThreadCluster, running_cluster

Open = Callable[..., Page]

BROKERS = ("broker-a", "broker-b")
NEW_SECRET = "never-shown-secret-4"
SIGNED = ClientSettings(access_key=OPERATOR, secret_key=OPERATOR_SECRET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cluster")
    for name in BROKERS:
        write_accounts(made / name / "config")
    return made


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ThreadCluster]:
    with running_cluster(len(BROKERS), data_dir=folder, acl_enable=True) as running:
        yield running


@pytest.fixture(scope="module")
def url(cluster: ThreadCluster) -> Iterator[str]:
    with dashboard(cluster.namesrv_address, settings=SIGNED) as address:
        yield address


def file_of(folder: Path, broker: str) -> AccessFile:
    return read_file(folder / broker / "config" / DEFAULT_NAME)


def account_on(folder: Path, broker: str, name: str) -> dict[str, Any] | None:
    return next((dict(one) for one in file_of(folder, broker).accounts if one["accessKey"] == name), None)


def on_each(folder: Path, name: str) -> list[dict[str, Any] | None]:
    return [account_on(folder, broker, name) for broker in BROKERS]


def accounts_of(page: Page) -> Locator:
    return page.get_by_role("region", name="Accounts").get_by_role("row")


def fill_secret(shown: Locator, secret: str) -> None:
    shown.get_by_label("Secret", exact=True).fill(secret)
    shown.get_by_label("Secret once more").fill(secret)


@contextmanager
def overheard(page: Page) -> Iterator[list[str]]:
    """Collect all that comes back to a page, and the addresses that it asks."""
    heard: list[str] = []

    def hear(response: Response) -> None:
        if "/api/access" in response.url:
            heard.append(response.text())

    def see(request: Request) -> None:
        heard.append(request.url)

    page.on("response", hear)
    page.on("request", see)
    yield heard


def test_an_account_is_created_on_every_broker_and_its_secret_is_shown_nowhere(
    open_page: Open,
    cluster: ThreadCluster,
    url: str,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    page = open_page(f"{url}/access")
    with overheard(page) as heard:
        page.get_by_role("button", name="New account").click()
        shown = page.get_by_role("dialog")
        shown.get_by_label("Name (access key)").fill("new-account")
        fill_secret(shown, NEW_SECRET)
        assert shown.get_by_label("Secret", exact=True).get_attribute("type") == "password"
        shown.get_by_role("button", name="Add a topic").click()
        shown.get_by_label("Name of a topic").fill("invoices")
        shown.get_by_label("What it may do with that topic").select_option("PUB|SUB")
        shown.get_by_label("Topics by default").select_option("SUB")
        shown.get_by_role("button", name="Create").click()
        expect(page.get_by_text("new-account is created on 2 brokers")).to_be_visible()
        row = accounts_of(page).filter(has_text="new-account")
        expect(row).to_contain_text("invoices=PUB|SUB")
        expect(row).to_contain_text("broker-a, broker-b")
    for stored in on_each(folder, "new-account"):
        assert stored is not None
        assert stored["secretKey"] == NEW_SECRET
        assert stored["defaultTopicPerm"] == "SUB"
        assert stored["topicPerms"] == ["invoices=PUB|SUB"]
        assert stored["admin"] == "false"
    assert len(heard) > 1
    assert "/api/access/put" in caplog.text
    assert NEW_SECRET not in "".join(heard) + page.content() + caplog.text
    as_it = ClientSettings(access_key="new-account", secret_key=NEW_SECRET)
    with Producer("p", cluster.namesrv_address, as_it) as producer, pytest.raises(PyroError, match="topic"):
        producer.send(Message("elsewhere", b"1"), timeout_ms=2_000)


def test_an_account_is_changed_and_keeps_what_was_not_touched(
    open_page: Open, url: str, folder: Path
) -> None:
    page = open_page(f"{url}/access")
    page.get_by_role("button", name=f"Change {SHOP}").click()
    shown = page.get_by_role("dialog")
    expect(shown.get_by_label("Name (access key)")).not_to_be_editable()
    fill_secret(shown, SHOP_SECRET)
    shown.get_by_label("Administrator").check()
    shown.get_by_label("Trusted addresses").fill("10.7.*.*")
    shown.get_by_role("button", name="Remove this line").first.click()
    shown.get_by_role("button", name="Save").click()
    be_sure(page, "Save", "The secret that it has", "Lines for topics: orders=PUB|SUB")
    expect(page.get_by_text(f"{SHOP} is changed on 2 brokers")).to_be_visible()
    expect(accounts_of(page).filter(has_text=SHOP)).to_contain_text("administrator")
    for stored in on_each(folder, SHOP):
        assert stored is not None
        assert stored["secretKey"] == SHOP_SECRET
        assert stored["admin"] == "true"
        assert stored["whiteRemoteAddress"] == "10.7.*.*"
        assert stored["topicPerms"] == ["prices=SUB", "clicks=PUB"]
        assert stored["groupPerms"] == ["billing=SUB"]


def make(page: Page, name: str) -> None:
    """Make an account that may read one topic."""
    page.get_by_role("button", name="New account").click()
    shown = page.get_by_role("dialog")
    shown.get_by_label("Name (access key)").fill(name)
    fill_secret(shown, NEW_SECRET)
    shown.get_by_role("button", name="Add a topic").click()
    shown.get_by_label("Name of a topic").fill("invoices")
    shown.get_by_role("button", name="Create").click()
    expect(page.get_by_text(f"{name} is created on 2 brokers")).to_be_visible()


def test_an_account_loses_its_last_line(open_page: Open, url: str, folder: Path) -> None:
    page = open_page(f"{url}/access")
    make(page, "soon-nothing")
    page.get_by_role("button", name="Change soon-nothing").click()
    shown = page.get_by_role("dialog")
    fill_secret(shown, NEW_SECRET)
    shown.get_by_role("button", name="Remove this line").click()
    shown.get_by_role("button", name="Save").click()
    be_sure(page, "Save", "Lines for topics: invoices=", "deleted and made anew")
    expect(page.get_by_text("soon-nothing is changed on 2 brokers")).to_be_visible()
    for stored in on_each(folder, "soon-nothing"):
        assert stored is not None
        assert "topicPerms" not in stored


def test_an_account_is_deleted_on_every_broker(open_page: Open, url: str, folder: Path) -> None:
    page = open_page(f"{url}/access")
    make(page, "soon-gone")
    page.get_by_role("button", name="Delete soon-gone").click()
    sure = page.get_by_role("button", name="Delete the account")
    expect(sure).to_be_disabled()
    page.get_by_label("Type its name to be sure").fill("soon-gone")
    be_sure(page, "Delete the account", "on broker-a, broker-b", "What it may do with topics: invoices=")
    expect(page.get_by_text("soon-gone is deleted on 2 brokers")).to_be_visible()
    expect(accounts_of(page).filter(has_text="soon-gone")).to_have_count(0)
    assert on_each(folder, "soon-gone") == [None, None]


def test_the_addresses_that_need_no_account_are_changed_and_taken_away(
    open_page: Open, url: str, folder: Path
) -> None:
    page = open_page(f"{url}/access")
    brokers = page.get_by_role("region", name="Access control of each broker")
    expect(brokers).to_contain_text("nobody")
    for lines, said in (("10.9.8.*\n10.9.9.1", "The list is changed on 2"), ("", "The list is empty on 2")):
        page.get_by_role("button", name="Addresses without account").click()
        shown = page.get_by_role("dialog")
        shown.get_by_label("One address in a line").fill(lines)
        shown.get_by_role("button", name="Save").click()
        if not lines:
            be_sure(page, "Save", "What 10.9.8.*, 10.9.9.1 may do")
        expect(page.get_by_text(said)).to_be_visible()
        expect(brokers.get_by_role("row").nth(2)).to_contain_text(lines.replace("\n", ", ") or "nobody")
        assert [file_of(folder, name).white for name in BROKERS] == [tuple(lines.split())] * 2


def test_an_address_that_means_nothing_is_refused_in_the_form(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/access")
    page.get_by_role("button", name="Addresses without account").click()
    shown = page.get_by_role("dialog")
    shown.get_by_label("One address in a line").fill("10.9.8.*\nmy-laptop")
    shown.get_by_role("button", name="Save").click()
    expect(shown.get_by_role("alert")).to_contain_text("my-laptop")


def test_secrets_that_differ_go_nowhere(open_page: Open, url: str, folder: Path) -> None:
    page = open_page(f"{url}/access")
    page.get_by_role("button", name="New account").click()
    shown = page.get_by_role("dialog")
    shown.get_by_label("Name (access key)").fill("mistyped")
    shown.get_by_label("Secret", exact=True).fill(NEW_SECRET)
    shown.get_by_label("Secret once more").fill(NEW_SECRET + "x")
    shown.get_by_role("button", name="Create").click()
    assert shown.get_by_label("Secret once more").evaluate("(one) => one.validity.customError")
    assert on_each(folder, "mistyped") == [None, None]


def test_the_dashboard_s_own_account_is_not_changed_from_here(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/access")
    own = accounts_of(page).filter(has_text=OPERATOR)
    expect(own).to_contain_text("this dashboard")
    expect(own.get_by_role("button")).to_have_count(0)
    refused = page.evaluate(
        """async (name) => {
            const token = document.querySelector("meta[name=csrf]").content;
            const answer = await fetch("/api/access/delete", { method: "POST",
                body: JSON.stringify({ name }), headers: { "X-CSRF-Token": token } });
            return [answer.status, (await answer.json()).error];
        }""",
        OPERATOR,
    )
    assert refused[0] == 400
    assert "shut out" in refused[1]


def test_a_broker_that_does_not_obey_is_told_beside_those_that_do(
    open_page: Open, cluster: ThreadCluster, url: str
) -> None:
    account = AccountChange(access_key="half-there", secret_key=NEW_SECRET)
    with Admin(cluster.namesrv_address, SIGNED) as admin:
        admin.update_account(account, address=cluster.broker_addresses[0])
    page = open_page(f"{url}/access")
    expect(accounts_of(page).filter(has_text="half-there")).not_to_contain_text("broker-b")
    page.get_by_role("button", name="Delete half-there").click()
    page.get_by_label("Type its name to be sure").fill("half-there")
    page.get_by_role("button", name="Delete the account").click()
    told = page.get_by_role("dialog").locator(".told").get_by_role("listitem")
    expect(told.filter(has_text="broker-a")).to_contain_text("done")
    expect(told.filter(has_text="broker-b")).to_contain_text("deleted failed")


def test_a_dashboard_that_only_looks_changes_no_account(
    open_page: Open, cluster: ThreadCluster, folder: Path
) -> None:
    with dashboard(cluster.namesrv_address, Access(is_read_only=True), settings=SIGNED) as only_looks:
        page = open_page(f"{only_looks}/access")
        expect(accounts_of(page).filter(has_text=SHOP)).to_be_visible()
        for name in ("New account", "Change", "Delete", "Addresses without account"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
        statuses = page.evaluate(
            """async (orders) => {
                const token = document.querySelector("meta[name=csrf]").content;
                return Promise.all(orders.map(async ([path, order]) => (await fetch(path, { method: "POST",
                    body: JSON.stringify(order), headers: { "X-CSRF-Token": token } })).status));
            }""",
            [
                ["/api/access/put", {"name": "sneaked-in", "secret": NEW_SECRET}],
                ["/api/access/delete", {"name": SHOP}],
                ["/api/access/white", {"addresses": ["*"]}],
            ],
        )
        assert statuses == [403, 403, 403]
    assert on_each(folder, "sneaked-in") == [None, None]
    assert None not in on_each(folder, SHOP)
