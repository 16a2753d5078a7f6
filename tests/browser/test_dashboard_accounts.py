"""A cluster with access control, as somebody with an account sees it, and somebody without."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from access_stage import NOBODY_SECRET, OPERATOR, OPERATOR_SECRET, SHOP, SHOP_SECRET, write_accounts
from dashboard_stage import dashboard
from playwright.sync_api import Page, Response, expect

from pyromq.config.settings import ClientSettings
from pyromq.testing.cluster import ThreadCluster, running_cluster

Open = Callable[..., Page]

SECRETS = (OPERATOR_SECRET, SHOP_SECRET, NOBODY_SECRET)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadCluster]:
    folder: Path = write_accounts(tmp_path_factory.mktemp("conf"))
    with running_cluster(acl_enable=True, acl_folder=str(folder)) as running:
        yield running


def test_accounts_are_listed_with_what_they_may_do_and_without_secrets(
    open_page: Open, cluster: ThreadCluster
) -> None:
    settings = ClientSettings(access_key=OPERATOR, secret_key=OPERATOR_SECRET)
    with dashboard(cluster.namesrv_address, settings=settings) as url:
        page = open_page(url)
        heard: list[str] = []

        def hear(response: Response) -> None:
            if "/api/access" in response.url:
                heard.append(response.text())

        page.on("response", hear)
        page.get_by_role("link", name="Access").click()
        rows = page.get_by_role("region", name="Accounts").get_by_role("row")
        expect(rows.filter(has_text=OPERATOR)).to_contain_text("administrator")
        shop = rows.filter(has_text=SHOP)
        expect(shop).to_contain_text("user")
        expect(shop).to_contain_text("orders=PUB|SUB")
        expect(shop).to_contain_text("billing=SUB")
        brokers = page.get_by_role("region", name="Access control of each broker")
        expect(brokers).to_contain_text("on: 3 accounts")
        assert heard
        assert not [secret for secret in SECRETS if secret in page.content() + "".join(heard)]
        assert "*" not in heard[0]


def test_an_account_that_is_no_administrator_is_told_what_it_lacks(
    open_page: Open, cluster: ThreadCluster
) -> None:
    settings = ClientSettings(access_key=SHOP, secret_key=SHOP_SECRET)
    with dashboard(cluster.namesrv_address, settings=settings) as url:
        page = open_page(f"{url}/topics")
        page.get_by_role("button", name="New topic").click()
        shown = page.get_by_role("dialog")
        shown.get_by_label("Name").fill("not-mine")
        shown.get_by_role("button", name="Create").click()
        expect(shown.get_by_role("listitem")).to_contain_text("broker-a")
        expect(shown.get_by_role("listitem")).to_contain_text("admin")


def test_without_an_account_a_broker_is_shown_as_refusing_and_why(
    open_page: Open, cluster: ThreadCluster
) -> None:
    with dashboard(cluster.namesrv_address) as url:
        page = open_page(url)
        expect(page.get_by_role("region", name="Brokers")).to_contain_text("refuses")
        alert = page.get_by_role("alert").filter(has_text="broker-a")
        expect(alert).to_contain_text("PYROMQ_ACCESS_KEY")


def test_a_cluster_without_access_control_says_so(open_page: Open) -> None:
    with running_cluster() as open_cluster, dashboard(open_cluster.namesrv_address) as url:
        page = open_page(f"{url}/access")
        expect(page.get_by_role("region", name="Access control of each broker")).to_contain_text(
            "access control is off here"
        )
        expect(page.get_by_text("whoever reaches one may do everything")).to_be_visible()
