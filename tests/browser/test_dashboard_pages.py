"""Each page of the dashboard, in a real browser, on a cluster where something happened."""

import re
from collections.abc import Callable

import pytest
from dashboard_story import ORDER_COUNT, Story
from playwright.sync_api import Page, expect

from pyromq import Admin, Message, PullConsumer
from pyromq.release import VERSION

Open = Callable[..., Page]


def test_the_first_page_shows_brokers_numbers_and_a_chart(open_page: Open, url: str, story: Story) -> None:
    page = open_page(url)
    brokers = page.get_by_role("region", name="Brokers")
    expect(brokers).to_contain_text("broker-a")
    expect(brokers).to_contain_text("master")
    expect(brokers).to_contain_text(story.cluster.broker_addresses[0])
    expect(brokers).to_contain_text("answers")
    expect(brokers).to_contain_text(f"V4_9_8, PyroMQ {VERSION}")
    expect(page.locator("#tile-topics")).to_have_text(re.compile(r"^[1-9]$"))
    expect(page.locator("#tile-dead-letters")).to_have_text("4")
    expect(page.locator("svg.chart path.line")).to_have_count(2)


def test_a_broker_says_its_version_and_for_how_long_it_has_been_running(open_page: Open, url: str) -> None:
    page = open_page(url)
    brokers = page.get_by_role("region", name="Brokers")
    heads = brokers.get_by_role("columnheader").all_text_contents()
    cells = brokers.get_by_role("row").nth(1).get_by_role("cell")
    expect(cells.nth(heads.index("Version"))).to_have_text(f"V4_9_8, PyroMQ {VERSION}")
    running = cells.nth(heads.index("Up for"))
    expect(running).to_have_text(re.compile(r"^\d+ (min|s)( \d+ s)?$"))
    expect(running.locator("time")).to_have_attribute(
        "title", re.compile(r"^Started \d{4}-.* by its own clock$")
    )


def test_a_message_is_sent_from_a_topics_page_and_its_id_leads_to_it(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/topic?name=orders")
    expect(page.get_by_role("region", name="Groups that read it")).to_contain_text("billing")
    page.get_by_role("button", name="Send a message").click()
    shown = page.get_by_role("dialog")
    expect(shown).to_contain_text("2 groups read it, and get the message: audit, billing.")
    # It waits for a day, so that other tests count what they did.
    shown.get_by_label("Body").fill('{"from": "the page"}')
    shown.get_by_label("Tag").fill("tried")
    shown.get_by_label("Keys").fill("by-hand")
    shown.get_by_role("button", name="Add a property").click()
    shown.get_by_label("Name of a property").fill("region")
    shown.get_by_label("Value of that property").fill("eu")
    shown.get_by_label("Queue").select_option("broker-a, queue 2")
    shown.get_by_label("Deliver").select_option("after any time")
    shown.get_by_label("Time").fill("1")
    shown.get_by_label("Unit").select_option("days")
    shown.get_by_role("button", name="Send", exact=True).click()
    result = shown.get_by_role("status")
    expect(result).to_contain_text("SEND_OK")
    expect(result).to_contain_text("broker-a, queue 2")
    expect(result).to_contain_text("It waits for its time")
    result.get_by_role("link").click()
    expect(page.locator("pre.body")).to_contain_text('"from": "the page"')
    expect(page.get_by_text("by-hand", exact=True).first).to_be_visible()
    expect(page.locator("main")).to_contain_text("eu")


def test_a_message_that_cannot_be_sent_says_why_in_the_form(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages")
    page.get_by_role("button", name="Send a message").click()
    shown = page.get_by_role("dialog")
    send = shown.get_by_role("button", name="Send", exact=True)
    shown.get_by_label("Body").fill("to nobody")
    send.click()
    assert shown.get_by_label("Topic").evaluate("(one) => one.validity.valueMissing")
    shown.get_by_label("Topic").fill("ordres")
    send.click()
    expect(shown.get_by_role("alert")).to_contain_text("ordres")
    expect(shown.get_by_role("alert")).to_contain_text("create it")


def test_dead_letters_are_as_alarming_as_health_says(open_page: Open, url: str) -> None:
    page = open_page(url)
    # Four dead letters that are no longer growing: worth a note, and all is well.
    expect(page.locator("#health-badge")).to_have_attribute("data-kind", "note")
    expect(page.locator("#tile-dead-letters")).to_have_text("4")
    expect(page.locator("#tile-dead-letters")).not_to_have_class(re.compile("bad|warm"))


def test_each_mark_of_an_axis_is_another_number(open_page: Open, url: str, story: Story) -> None:
    story.producer.send(Message("lonely", b"x"))
    with PullConsumer("one-behind", story.name_server) as reader:
        for queue in reader.queues("lonely"):
            reader.commit(queue, 0)
    page = open_page(f"{url}/group?name=one-behind")
    marks = page.get_by_role("img", name=re.compile("^Lag: lag 1 ")).locator("text[text-anchor=end]")
    # The last text is the time at the chart's end.
    expect(marks).to_have_text(["0", "1", "2", re.compile(":")])


@pytest.mark.parametrize("path", ["/topics", "/groups", "/dead-letters", "/clients", "/messages"])
def test_no_placeholder_is_cut(open_page: Open, url: str, path: str) -> None:
    page = open_page(url + path)
    inputs = page.locator("input[placeholder]")
    expect(inputs.first).to_be_visible()
    # By characters: how wide those are is the font's business, which each machine has its own of.
    cut = inputs.evaluate_all(
        "all => all.filter(one => one.size < one.placeholder.length).map(one => one.placeholder)"
    )
    assert cut == []


def test_a_topic_shows_its_queues_its_rate_and_its_readers(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/topics")
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders")
    groups = page.get_by_role("region", name="Groups that read it")
    expect(groups).to_contain_text("audit")
    expect(groups).to_contain_text("billing")
    expect(page.get_by_role("region", name="Queues", exact=True).get_by_role("row")).to_have_count(5)
    expect(page.locator("svg.chart path.line")).to_have_count(1)


def test_groups_say_who_is_online_and_who_is_behind(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/groups?state=online")
    rows = page.get_by_role("region", name="Groups").get_by_role("row")
    expect(rows.filter(has_text="billing")).to_be_visible()
    expect(rows.filter(has_text="audit")).to_have_count(0)
    page.get_by_label("State").select_option("behind")
    expect(rows.filter(has_text="audit")).to_be_visible()
    expect(page).to_have_url(f"{url}/groups?state=behind")


def test_a_group_shows_its_lag_for_each_queue_and_its_members(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/group?name=audit")
    lags = page.get_by_role("region", name="Lag of each queue")
    expect(lags.get_by_role("row")).to_have_count(5)
    # Dead letters were sent to the topic behind where the group is.
    expect(page.locator(".facts").first).to_contain_text("4 messages behind")
    page.goto(f"{url}/group?name=billing")
    expect(page.get_by_role("region", name="Members")).to_contain_text("PYTHON")


def test_messages_are_found_by_topic_and_time(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages?topic=orders")
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    expect(rows).to_have_count(1 + ORDER_COUNT + 2 + 4)
    page.get_by_label("From").fill("2031-01-01T00:00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No message is so")).to_be_visible()


def test_messages_are_found_by_key_and_shown_as_json_text_and_numbers(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages")
    page.get_by_label("Find by").select_option("key")
    page.get_by_label("Topic").fill("orders")
    page.get_by_label("Key").fill("order-7")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("region", name="Messages").get_by_role("link").click()
    expect(page.locator("pre.body")).to_contain_text('"city": "Oslo"')
    page.get_by_role("tab", name="Hex").click()
    expect(page.locator("pre.body")).to_contain_text("00000000  7b 22 69 64")
    page.get_by_role("tab", name="Text").click()
    expect(page.locator("pre.body")).to_contain_text('{"id": 7')


def test_a_message_is_found_by_either_of_its_ids(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/messages?by=id&id={story.place_id}")
    expect(page.get_by_role("region", name="Messages").get_by_role("link")).to_have_text(story.message_id)
    page.goto(f"{url}/messages?by=id&id={story.message_id}&topic=orders")
    expect(page.get_by_role("region", name="Messages").get_by_role("link")).to_have_text(story.message_id)


def test_a_message_shows_its_life_as_it_was_traced(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/message?id={story.place_id}")
    life = page.get_by_role("region", name="Life")
    expect(life).to_contain_text("sent")
    expect(life).to_contain_text("web-shop")
    expect(life).to_contain_text("consumed")
    expect(life).to_contain_text("billing")


def test_a_message_without_keys_has_a_life_too(open_page: Open, url: str, story: Story) -> None:
    sent = story.producer.send(Message("keyless", b"nothing to find it by"))
    page = open_page(f"{url}/message?id={sent.offset_message_id}")
    life = page.get_by_role("region", name="Life")
    expect(life).to_contain_text("stored")
    expect(life).to_contain_text(f"keyless, queue {sent.queue.queue_id}, offset 0")
    page.goto(f"{url}/messages?by=id&topic=keyless&id={sent.message_id}")
    expect(page.get_by_role("region", name="Messages").get_by_role("link")).to_have_text(sent.message_id)


def test_the_life_of_a_dead_letter_tells_that_it_died(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages?by=key&topic=%25DLQ%25mail&key=mail-0")
    page.get_by_role("region", name="Messages").get_by_role("link").click()
    life = page.get_by_role("region", name="Life")
    expect(life).to_contain_text("dead letter")
    expect(life.get_by_role("row").filter(has_text="dead letter")).to_contain_text("mail")


def test_messages_between_two_times_are_turned_over(open_page: Open, url: str, story: Story) -> None:
    before = story.producer.send(Message("many-stored", b"first"))
    for start in (0, 50):
        story.producer.send_batch([Message("many-stored", b"%d" % at) for at in range(start, start + 50)])
    page = open_page(f"{url}/messages")
    page.get_by_label("Topic").fill("many-stored")
    page.get_by_label("From").fill("2020-01-01T00:00:00")
    page.get_by_label("To", exact=True).fill("2035-01-01T00:00:00")
    page.get_by_role("button", name="Search").click()
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    expect(rows).to_have_count(1 + 64)
    expect(rows.nth(1)).to_contain_text(before.message_id)
    page.get_by_role("button", name="More").click()
    expect(rows).to_have_count(1 + 101)
    page.get_by_label("To", exact=True).fill("2020-01-02T00:00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No message is so")).to_be_visible()


def test_the_newest_messages_come_first_and_older_ones_after_them(
    open_page: Open, url: str, story: Story
) -> None:
    for start in (0, 50):
        story.producer.send_batch([Message("long-kept", b"%d" % at) for at in range(start, start + 50)])
    page = open_page(f"{url}/messages?topic=long-kept")
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    expect(rows).to_have_count(1 + 64)
    page.get_by_role("button", name="Older").click()
    expect(rows).to_have_count(1 + 100)
    expect(page.get_by_role("button", name="Older")).to_be_hidden()
    # Messages of one batch are stored in one millisecond, so that only the two batches have an order.
    bodies = [int(text) for text in rows.locator("td:last-child").all_text_contents()]
    assert sorted(bodies) == list(range(100))
    assert min(bodies[:50]) == 50


def test_messages_are_found_that_were_stored_before_a_time(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/messages?topic=orders")
    rows = page.get_by_role("region", name="Messages").get_by_role("row")
    expect(rows).to_have_count(1 + ORDER_COUNT + 2 + 4)
    page.get_by_label("To", exact=True).fill("2035-01-01T00:00:00")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(1 + ORDER_COUNT + 2 + 4)
    page.get_by_label("To", exact=True).fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No message is so")).to_be_visible()


def test_clients_are_listed_and_say_what_they_do_with_their_stacks(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/clients")
    row = page.get_by_role("row").filter(has_text="billing")
    expect(row).to_contain_text("PYTHON")
    expect(row).to_contain_text("V4_9_8")
    row.get_by_role("button", name="Look").click()
    shown = page.get_by_role("dialog")
    expect(shown.get_by_role("region", name="Its queues").get_by_role("row")).to_have_count(6)
    expect(shown).to_contain_text("orders")
    shown.get_by_role("button", name="Ask for its stacks").click()
    expect(shown.locator("pre.stacks")).to_contain_text("TID")
    page.keyboard.press("Escape")
    expect(shown).to_have_count(0)
    page.get_by_label("Show").select_option("producer")
    expect(page.get_by_role("cell", name="web-shop", exact=True)).to_be_visible()


@pytest.mark.row("AD-11")
def test_dead_letters_are_listed_for_their_group_and_found_by_key(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/dead-letters")
    page.get_by_role("link", name="mail").click()
    rows = page.get_by_role("region", name="Dead letters").get_by_role("row")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("mail-")
    page.get_by_label("Key").fill("mail-2")
    page.get_by_role("button", name="Find").click()
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("mail-2")


@pytest.mark.row("AD-10")
def test_a_topic_that_the_page_creates_is_on_the_broker(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/topics")
    page.get_by_role("button", name="New topic").click()
    shown = page.get_by_role("dialog")
    shown.get_by_label("Name").fill("made-by-page")
    shown.get_by_label("Queues to write").fill("3")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("made-by-page is created on 1 broker")).to_be_visible()
    with Admin(story.name_server) as admin:
        assert [one.write_queue_nums for one in admin.route("made-by-page").queue_datas] == [3]
