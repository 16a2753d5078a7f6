from collections.abc import Callable, Iterator

import pytest
from chromium_stage import chromium
from dashboard_stage import dashboard
from dashboard_story import Story, told_story
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

#: Long, for it is spent only when a test fails.
WAIT_MS = 60_000
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with told_story() as told:
        yield told


@pytest.fixture(scope="module")
def url(story: Story) -> Iterator[str]:
    with dashboard(story.name_server) as address:
        yield address


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open pages in a browser of their own; whatever a page complains of fails the test."""
    contexts, complaints = [], []

    def heard(message: ConsoleMessage) -> None:
        # An answer with an error is the page's to show.
        if message.type == "error" and "Failed to load resource" not in message.text:
            complaints.append(message.text)

    def opened(address: str, **options: object) -> Page:
        chosen = {"viewport": {"width": 1400, "height": 900}} | options
        context = browser.new_context(**chosen)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
