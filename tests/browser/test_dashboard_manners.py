"""How pages behave, whatever they show: live, safe, in either light, by keyboard, on a telephone."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from dashboard_story import HOSTILE, Story
from dead_letter_stage import undertaker
from playwright.sync_api import Page, expect

from pyromq import Message

Open = Callable[..., Page]


def test_numbers_move_without_loading_the_page_again(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/topics?filter=live-numbers")
    expect(page.get_by_text("No topic is so")).to_be_visible()
    story.producer.send(Message("live-numbers", b"1"))
    row = page.get_by_role("row").filter(has_text="live-numbers")
    expect(row.get_by_role("cell").nth(3)).to_have_text("1")
    for _ in range(4):
        story.producer.send(Message("live-numbers", b"more"))
    expect(row.get_by_role("cell").nth(3)).to_have_text("5")
    expect(page.locator("#live")).to_have_text("live")


def test_a_body_that_is_no_text_is_shown_as_numbers_and_downloads_whole(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages?by=key&topic=orders&key=binary")
    page.get_by_role("region", name="Messages").get_by_role("link").click()
    expect(page.locator("pre.body")).to_contain_text("00000010  10 11 12 13")
    expect(page.get_by_role("tab", name="JSON")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes() == bytes(range(256))


def test_markup_in_a_message_stays_text_everywhere(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages?by=key&topic=orders&key=hostile")
    row = page.get_by_role("region", name="Messages").get_by_role("row").nth(1)
    expect(row).to_contain_text("<b>bold</b>")
    row.get_by_role("link").click()
    expect(page.locator("pre.body")).to_have_text(HOSTILE)
    assert page.locator("main img, main script").count() == 0
    assert "owned" not in page.title()


def test_markup_in_keys_ids_and_dead_letters_stays_text(open_page: Open, url: str, story: Story) -> None:
    key = "<img/src=x/onerror=document.title='owned'>"
    sent = story.producer.send(
        Message("hostile", HOSTILE.encode(), keys=[key], properties={"<b>n</b>": HOSTILE})
    )
    with undertaker(story.name_server, story.cluster.broker_addresses) as who:
        who.bury("hostile-mail", "hostile", HOSTILE.encode(), tags="<b>t</b>", keys=[key])
    page = open_page(f"{url}/messages?topic=hostile")
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    expect(rows.filter(has_text=key).first).to_be_visible()
    page.goto(f"{url}/message?id={sent.offset_message_id}")
    expect(page.get_by_role("link", name=key)).to_be_visible()
    expect(page.get_by_text("<b>n</b>")).to_be_visible()
    page.goto(f"{url}/dead-letters?group=hostile-mail")
    letters = page.get_by_role("region", name="Dead letters")
    expect(letters).to_contain_text(key)
    letters.get_by_role("button").first.click()
    expect(page.get_by_role("dialog").locator("pre.body")).to_have_text(HOSTILE)
    page.goto(f"{url}/topics?filter={quote(HOSTILE)}")
    expect(page.get_by_label("Filter")).to_have_value(HOSTILE)
    assert page.locator("main img, main script, main b").count() == 0
    assert "owned" not in page.title()


def test_a_topic_that_is_not_there_says_so_and_what_to_do(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/topic?name=nowhere")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("there is no topic 'nowhere'")
    expect(alert).to_contain_text("Look for it in the list")


def test_light_and_dark_follow_the_system_until_somebody_switches(open_page: Open, url: str) -> None:
    page = open_page(url, color_scheme="dark")
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(root).to_have_attribute("data-theme", "light")
    page.reload()
    expect(root).to_have_attribute("data-theme", "light")


def test_every_control_of_every_page_has_a_name(open_page: Open, url: str) -> None:
    page = open_page(url)
    for path in (
        "/",
        "/topics",
        "/topic?name=orders",
        "/groups",
        "/group?name=audit",
        "/messages",
        "/dead-letters?group=mail",
        "/clients",
        "/access",
        "/health",
    ):
        page.goto(url + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("main button, main input, main select, header button, a")]
                .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length))
                .map((one) => one.outerHTML)"""
        )
        assert nameless == []


@pytest.mark.parametrize(
    "path", ["/", "/topics", "/group?name=audit", "/messages?topic=orders", "/dead-letters?group=mail"]
)
def test_a_page_fits_a_telephone(open_page: Open, url: str, path: str) -> None:
    page = open_page(url + path, viewport={"width": 390, "height": 844})
    expect(page.get_by_role("table").get_by_role("row").nth(1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_page_is_walked_with_the_keyboard(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/topics")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="New topic")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def send_to(story: Story, topic: str, count: int) -> None:
    story.producer.send_batch([Message(topic, b"x") for _ in range(count)])


def test_no_row_moves_from_under_the_pointer(open_page: Open, url: str, story: Story) -> None:
    send_to(story, "held-one", 2)
    send_to(story, "held-two", 1)
    page = open_page(f"{url}/topics?filter=held-&sort=messages")
    rows = page.get_by_role("region", name="Topics").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("held-one")
    expect(rows.nth(2)).to_contain_text("held-two")
    rows.nth(2).hover()
    send_to(story, "held-two", 5)
    expect(rows.nth(2).get_by_role("cell").nth(3)).to_have_text("6")
    expect(rows.nth(2)).to_contain_text("held-two")
    page.get_by_role("heading", level=1).hover()
    expect(rows.nth(1)).to_contain_text("held-two")


def test_a_focus_in_a_list_is_not_lost_when_its_order_changes(
    open_page: Open, url: str, story: Story
) -> None:
    send_to(story, "focus-one", 2)
    send_to(story, "focus-two", 1)
    page = open_page(f"{url}/topics?filter=focus-&sort=messages")
    rows = page.get_by_role("region", name="Topics").get_by_role("row")
    expect(rows.nth(2)).to_contain_text("focus-two")
    link = page.get_by_role("link", name="focus-two")
    link.focus()
    send_to(story, "focus-two", 5)
    expect(rows.filter(has_text="focus-two").get_by_role("cell").nth(3)).to_have_text("6")
    expect(link).to_be_focused()


def test_who_goes_back_to_a_list_is_where_he_was(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages?topic=orders", viewport={"width": 1024, "height": 400})
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    expect(rows.nth(20)).to_be_visible()
    rows.nth(20).get_by_role("link").click()
    expect(page.locator("pre.body")).to_be_visible()
    page.go_back()
    expect(rows.nth(20)).to_be_in_viewport()


def test_times_say_whose_they_are(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/messages?topic=orders", timezone_id="Asia/Tokyo")
    expect(page.get_by_role("columnheader", name="Stored Asia/Tokyo")).to_be_visible()
    page.goto(f"{url}/message?id={story.place_id}")
    expect(page.get_by_role("main")).to_contain_text("Asia/Tokyo from 127.0.0.1")


def test_a_body_s_forms_are_walked_with_the_arrows(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/message?id={story.place_id}")
    page.get_by_role("tab", name="JSON").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Hex")).to_be_focused()
    expect(page.locator("pre.body")).to_contain_text("00000000  7b 22 69 64")


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_a_long_name_hides_no_number(open_page: Open, url: str, story: Story, width: int) -> None:
    name = ("long-" + "x" * 60 + "_y" * 40)[:120]
    send_to(story, name, 1)
    page = open_page(f"{url}/topics?filter=long-", viewport={"width": width, "height": 900})
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.goto(url)
    busiest = page.get_by_role("region", name="Busiest topics")
    expect(busiest.get_by_role("row").nth(1)).to_be_visible()
    assert busiest.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("path", ["/", "/health"])
def test_the_menu_is_whole_on_a_small_laptop(open_page: Open, url: str, path: str) -> None:
    page = open_page(url + path, viewport={"width": 1024, "height": 768})
    menu = page.get_by_role("navigation")
    expect(menu.get_by_role("link")).to_have_count(8)
    assert menu.evaluate("(one) => one.scrollWidth <= one.clientWidth")
