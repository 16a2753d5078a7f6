"""Draws docs/dashboard/*.png: each page of a dashboard, of a cluster in which something happens."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from access_stage import OPERATOR, OPERATOR_SECRET, SHOP, write_accounts  # noqa: E402
from chromium_stage import chromium  # noqa: E402
from dashboard_stage import dashboard  # noqa: E402
from dashboard_story import Story, told_story  # noqa: E402
from playwright.sync_api import Browser, Page, ViewportSize  # noqa: E402

from pyromq import Admin, Message  # noqa: E402
from pyromq.client.plans.admin.scaling_plans import TopicUpdate  # noqa: E402
from pyromq.config.settings import ClientSettings  # noqa: E402
from pyromq.testing.cluster import running_cluster  # noqa: E402

SHOTS = ROOT / "docs" / "dashboard"
#: Seconds of traffic before the first picture, so that charts have something to show.
TRAFFIC_S = 25
SIZE: ViewportSize = {"width": 1360, "height": 860}
PAGES = {
    "cluster": "/",
    "topics": "/topics",
    "topic": "/topic?name=orders",
    "groups": "/groups",
    "group": "/group?name=audit",
    "messages": "/messages?topic=orders",
    "message": "/message?id={place_id}",
    "dead-letters": "/dead-letters?group=mail",
    "clients": "/clients",
    "health": "/health",
}
#: Pages that are drawn in the dark too.
DARK = ("cluster", "group", "message", "health")


@contextmanager
def traffic(story: Story) -> Iterator[None]:
    """Send orders, payments and parcels, now more and now fewer."""
    stop = threading.Event()

    def send() -> None:
        at = 0
        while not stop.wait(0.05):
            at += 1
            for topic, many in (("orders", 1 + at // 40 % 4), ("payments", 1 + at // 60 % 2), ("parcels", 1)):
                for _ in range(many):
                    story.producer.send(
                        Message(topic, b'{"id": %d}' % at, keys=[f"{topic}-{at}"], tags="new")
                    )

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join(10)


def shoot(page: Page, name: str) -> None:
    """Take a picture of a page once its numbers are there."""
    page.locator("[aria-busy]").first.wait_for(state="detached")
    page.wait_for_timeout(2_500)
    page.screenshot(path=SHOTS / f"{name}.png")
    print(f"{name}.png")


def sends(page: Page, url: str) -> None:
    """Take pictures of a test message, of where it went, and of the question before a topic is deleted."""
    page.goto(f"{url}/topic?name=orders")
    page.wait_for_timeout(2_000)
    page.get_by_role("button", name="Send a message").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Body").fill('{"id": 7, "city": "Oslo"}')
    form.get_by_label("Tag").fill("paid")
    form.get_by_label("Keys").fill("order-7")
    form.get_by_role("button", name="Add a property").click()
    form.get_by_label("Name of a property").fill("region")
    form.get_by_label("Value of that property").fill("eu")
    form.get_by_label("Deliver").select_option("after any time")
    shoot(page, "send-a-message")
    form.get_by_label("Deliver").select_option("at once")
    form.get_by_role("button", name="Send", exact=True).click()
    form.get_by_role("status").wait_for()
    shoot(page, "message-sent")
    form.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Delete").click()
    shoot(page, "delete-a-topic")


def dialogs(page: Page, url: str) -> None:
    """Take pictures of what opens above pages: the preview of a move, a dead letter, a member's stacks."""
    page.goto(f"{url}/group?name=audit")
    page.wait_for_timeout(2_000)
    page.get_by_role("button", name="Move offsets").click()
    page.get_by_role("dialog").get_by_label("Go on").select_option("first")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Move it").wait_for()
    shoot(page, "move-offsets")
    page.goto(f"{url}/dead-letters?group=mail")
    page.get_by_role("region", name="Dead letters").get_by_role("button").first.click()
    shoot(page, "mend-a-dead-letter")
    page.goto(f"{url}/clients")
    page.get_by_role("button", name="Look").first.click()
    page.get_by_role("button", name="Ask for its stacks").click()
    page.locator("pre.stacks").wait_for()
    shoot(page, "member")


def make_trouble(story: Story) -> None:
    """Give a topic to one broker only, with queues that nobody reads, for the doctor to find."""
    with Admin(story.name_server) as admin:
        update = TopicUpdate(topic="returns", read_queue_count=4, write_queue_count=8)
        admin.update_topic(update, address=story.cluster.broker_addresses[0])


def accounts(browser: Browser) -> None:
    """Take a picture of the accounts of a cluster with access control."""
    with TemporaryDirectory() as folder:
        conf = write_accounts(Path(folder))
        settings = ClientSettings(access_key=OPERATOR, secret_key=OPERATOR_SECRET)
        with (
            running_cluster(2, acl_enable=True, acl_folder=str(conf)) as cluster,
            dashboard(cluster.namesrv_address, settings=settings) as url,
        ):
            page = browser.new_page(viewport=SIZE)
            page.goto(f"{url}/access")
            shoot(page, "access")
            page.get_by_role("button", name=f"Change {SHOP}").click()
            shoot(page, "change-an-account")


def main() -> None:
    """Draw all of them; with --accounts those of a cluster with access control only."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    if "--accounts" in sys.argv:
        with chromium() as browser:
            accounts(browser)
        return
    with told_story(brokers=2) as story, traffic(story), dashboard(story.name_server, round_s=1.0) as url:
        make_trouble(story)
        time.sleep(TRAFFIC_S)
        with chromium() as browser:
            accounts(browser)
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport=SIZE, color_scheme=scheme)
                for name, path in PAGES.items():
                    if scheme == "dark" and name not in DARK:
                        continue
                    page.goto(url + path.format(place_id=story.place_id))
                    shoot(page, name if scheme == "light" else f"{name}-dark")
                if scheme == "light":
                    dialogs(page, url)
                    sends(page, url)


if __name__ == "__main__":
    main()
