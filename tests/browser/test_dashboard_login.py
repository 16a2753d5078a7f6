"""Logging in, and looking only, as a person meets them."""

from collections.abc import Callable, Iterator

import pytest
from dashboard_stage import dashboard
from playwright.sync_api import Page, expect

from pyromq import Admin
from pyromq.dashboard.app import Access
from pyromq.testing.cluster import ThreadCluster, running_cluster

Open = Callable[..., Page]
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(brokers=2) as running:
        with Admin(running.namesrv_address) as admin:
            admin.create_topic("orders", 4)
        yield running


def test_the_page_that_was_wanted_comes_after_the_password(open_page: Open, cluster: ThreadCluster) -> None:
    with dashboard(cluster.namesrv_address, Access(password=PASSWORD)) as url:
        page = open_page(f"{url}/topics?filter=ord")
        page.get_by_label("Password").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("That is not the password.")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{url}/topics?filter=ord")
        expect(page.get_by_role("link", name="orders")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Password")).to_be_visible()
        page.goto(f"{url}/topics")
        expect(page.get_by_label("Password")).to_be_visible()


def test_a_dashboard_that_only_looks_has_no_buttons_that_change(
    open_page: Open, cluster: ThreadCluster
) -> None:
    with dashboard(cluster.namesrv_address, Access(is_read_only=True)) as url:
        page = open_page(f"{url}/topics")
        expect(page.get_by_text("read only", exact=True)).to_be_visible()
        page.get_by_role("link", name="orders").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("orders")
        for name in ("New topic", "Change", "Delete", "Move offsets"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
