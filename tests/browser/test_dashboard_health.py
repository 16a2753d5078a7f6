"""The doctor's findings on a page: the worst first, why, what to do, and a badge on the first page."""

from collections.abc import Callable, Iterator

import pytest
from dashboard_stage import dashboard
from playwright.sync_api import Page, expect

from pyromq import Admin
from pyromq.client.plans.admin.scaling_plans import TopicUpdate
from pyromq.dashboard.app import Access
from pyromq.testing.cluster import ThreadCluster, running_cluster

Open = Callable[..., Page]


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(brokers=2) as running:
        yield running


def put_topic(cluster: ThreadCluster, *addresses: str) -> None:
    """Give a topic to these brokers only."""
    with Admin(cluster.namesrv_address) as admin:
        for address in addresses:
            update = TopicUpdate(topic="orders", read_queue_count=4, write_queue_count=4)
            assert [told.failure for told in admin.update_topic(update, address=address)] == [None]


def test_a_finding_says_why_and_what_to_do_and_goes_when_that_is_done(
    open_page: Open, cluster: ThreadCluster
) -> None:
    one, other = cluster.broker_addresses
    put_topic(cluster, one)
    with dashboard(cluster.namesrv_address) as url:
        page = open_page(url)
        badge = page.locator("#health-badge")
        expect(badge).to_have_text("Health: 1 warning")
        badge.click()
        finding = page.get_by_role("article")
        expect(finding).to_have_count(1)
        expect(finding).to_contain_text("topic orders")
        expect(finding.locator(".why")).not_to_be_empty()
        expect(finding.locator(".do")).to_contain_text(
            f"pyromq topic create orders -n {cluster.namesrv_address}"
        )
        put_topic(cluster, other)
        page.get_by_role("button", name="Examine now").click()
        expect(page.get_by_text("All is well")).to_be_visible()
        expect(finding).to_have_count(0)
        page.get_by_role("link", name="Cluster").click()
        expect(badge).to_have_text("Health: all is well")


def test_the_worst_comes_first_and_facts_are_folded_away(open_page: Open, cluster: ThreadCluster) -> None:
    one, _ = cluster.broker_addresses
    put_topic(cluster, one)
    cluster.stop_broker("broker-b")
    with Admin(cluster.namesrv_address) as admin:
        admin.set_topic_perm("orders", 2)
    with dashboard(cluster.namesrv_address) as url:
        page = open_page(f"{url}/health")
        marks = page.get_by_role("region", name="Findings").locator("article .mark")
        expect(marks.first).to_be_visible()
        ranks = [["problem", "warning", "note"].index(text) for text in marks.all_text_contents()]
        assert ranks == sorted(ranks)
        facts = page.get_by_role("article").first.locator("details pre")
        expect(facts).to_be_hidden()
        page.get_by_role("article").first.get_by_text("Facts").click()
        expect(facts).to_be_visible()


def test_a_dashboard_that_only_looks_examines_too(open_page: Open, cluster: ThreadCluster) -> None:
    with dashboard(cluster.namesrv_address, Access(is_read_only=True)) as url:
        page = open_page(f"{url}/health")
        expect(page.get_by_text("All is well")).to_be_visible()
        put_topic(cluster, cluster.broker_addresses[0])
        page.get_by_role("button", name="Examine now").click()
        expect(page.get_by_role("article")).to_contain_text("orders")


def test_an_examination_that_cannot_be_made_says_so_and_what_to_do(open_page: Open) -> None:
    with dashboard("127.0.0.1:9") as url:
        page = open_page(f"{url}/health")
        alert = page.get_by_role("alert").filter(has_text="Is the server up")
        expect(alert).to_contain_text("127.0.0.1:9")
        expect(page.get_by_text("Not examined yet")).to_be_visible()
