"""Each change that the dashboard makes, done in a real browser and looked for in the cluster."""

import json
from collections.abc import Callable

import pytest
from dashboard_story import ORDER_COUNT, Story
from page_questions import be_sure
from playwright.sync_api import Locator, Page, expect

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.codes import Perm
from pyromq.errors import PyroError
from pyromq.testing.waiting import eventually

Open = Callable[..., Page]


def fill_topic(page: Page, name: str, *, write: int, read: int) -> None:
    shown = page.get_by_role("dialog")
    shown.get_by_label("Name").fill(name)
    shown.get_by_label("Queues to write").fill(str(write))
    shown.get_by_label("Queues to read").fill(str(read))


def queue_counts(story: Story, topic: str) -> list[tuple[int, int]]:
    with Admin(story.name_server) as admin:
        return [(one.write_queue_nums, one.read_queue_nums) for one in admin.route(topic).queue_datas]


def test_a_topic_is_created_changed_and_deleted(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/topics")
    page.get_by_role("button", name="New topic").click()
    fill_topic(page, "made-here", write=3, read=5)
    page.get_by_role("dialog").get_by_label("Messages").select_option("FIFO")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("made-here is created on 1 broker")).to_be_visible()
    page.get_by_role("link", name="made-here").click()
    assert queue_counts(story, "made-here") == [(3, 5)]
    settings = page.get_by_role("region", name="Settings on each broker")
    expect(settings.get_by_role("row").nth(1)).to_contain_text("broker-a")
    expect(settings.get_by_role("row").nth(1)).to_contain_text("fifo")
    page.get_by_role("button", name="Change").click()
    page.get_by_role("dialog").get_by_label("Queues to write").fill("4")
    page.get_by_role("dialog").get_by_label("Messages").select_option("DELAY")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("made-here is changed")).to_be_visible()
    assert queue_counts(story, "made-here") == [(4, 5)]
    expect(settings.get_by_role("row").nth(1)).to_contain_text("delay")
    page.get_by_role("button", name="Delete").click()
    sure = page.get_by_role("button", name="Delete for ever")
    expect(sure).to_be_disabled()
    page.get_by_label("Type its name to be sure").fill("made-here")
    be_sure(page, "Delete for ever", "on broker-a: nothing brings them back")
    expect(page).to_have_url(f"{url}/topics")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page.get_by_role("link", name="made-here")).to_have_count(0)


def test_a_question_names_what_is_lost_and_without_a_yes_nothing_happens(
    open_page: Open, url: str, story: Story
) -> None:
    story.producer.send_batch([Message("half-read", b"%d" % at) for at in range(6)])
    with PullConsumer("half-reader", story.name_server) as reader:
        for queue in reader.queues("half-read"):
            reader.commit(queue, 0)
    page = open_page(f"{url}/topics?filter=half-read")
    page.get_by_role("link", name="half-read").click()
    expect(page.get_by_role("region", name="Groups that read it")).to_contain_text("half-reader")
    page.get_by_role("button", name="Delete").click()
    lost = page.get_by_role("list", name="What is lost")
    expect(lost).to_contain_text("6 messages in 4 queues on broker-a: nothing brings them back")
    expect(lost).to_contain_text("How far group half-reader has read; 6 messages it has not read yet")
    page.get_by_role("button", name="Cancel").click()
    page.goto(f"{url}/group?name=half-reader")
    expect(page.get_by_role("region", name="Lag of each queue").get_by_role("row")).to_have_count(5)
    page.get_by_role("button", name="Delete").click()
    expect(lost).to_contain_text("How far it has read, in 4 queues of half-read, unless you keep it")
    expect(lost).to_contain_text("6 messages that it has not read yet")
    page.keyboard.press("Escape")
    assert queue_counts(story, "half-read") == [(4, 4)]
    assert set(story.committed("half-reader", "half-read").values()) == {0}


def test_fewer_queues_to_read_are_a_question_and_more_are_none(
    open_page: Open, url: str, story: Story
) -> None:
    with Admin(story.name_server) as admin:
        admin.create_topic("narrowed", 4)
    with Producer("fills", story.name_server) as producer:
        for at in range(4):
            producer.send(Message("narrowed", b"x"), selector=lambda queues, _message, at=at: queues[at])
    page = open_page(f"{url}/topic?name=narrowed")
    expect(page.get_by_role("region", name="Queues", exact=True).get_by_role("row")).to_have_count(5)
    expect(page.locator(".facts").first).to_contain_text("4 kept")
    page.get_by_role("button", name="Change").click()
    page.get_by_role("dialog").get_by_label("Queues to read").fill("1")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("list", name="What is lost")).to_contain_text("3 messages there")
    assert queue_counts(story, "narrowed") == [(4, 4)]
    be_sure(page, "Save", "Queues 1 to 3 of each broker")
    expect(page.get_by_text("narrowed is changed")).to_be_visible()
    assert queue_counts(story, "narrowed") == [(4, 1)]
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Change").click()
    page.get_by_role("dialog").get_by_label("Queues to read").fill("6")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert queue_counts(story, "narrowed") == [(4, 6)]


def test_a_topic_that_may_only_be_read_takes_no_messages(open_page: Open, url: str, story: Story) -> None:
    story.producer.send(Message("frozen", b"before"))
    page = open_page(f"{url}/topics?filter=frozen")
    page.get_by_role("link", name="frozen").click()
    settings = page.get_by_role("region", name="Settings on each broker").get_by_role("row").nth(1)
    expect(settings).to_contain_text("RW")
    page.get_by_role("button", name="Change").click()
    page.get_by_role("dialog").get_by_label("Permission").select_option("read only")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("frozen is changed")).to_be_visible()
    expect(settings.get_by_role("cell").nth(3)).to_have_text("R")
    with Admin(story.name_server) as admin:
        assert [one.perm for one in admin.route("frozen").queue_datas] == [Perm.READ]
    with Producer("late", story.name_server) as producer, pytest.raises(PyroError):
        producer.send(Message("frozen", b"after"), timeout_ms=1_000)


def test_a_topic_with_a_bad_name_is_refused_in_the_form(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/topics")
    page.get_by_role("button", name="New topic").click()
    fill_topic(page, "TBW102", write=1, read=1)
    page.get_by_role("button", name="Create").click()
    alert = page.get_by_role("dialog").get_by_role("alert")
    expect(alert).to_contain_text("TBW102")
    expect(alert).to_contain_text("Correct it and try again")


def test_a_group_is_created_changed_and_deleted(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/groups")
    page.get_by_role("button", name="New group").click()
    shown = page.get_by_role("dialog")
    shown.get_by_label("Name").fill("group-made-here")
    shown.get_by_label("Retries").fill("3")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("group-made-here is created")).to_be_visible()
    page.get_by_role("link", name="group-made-here").click()
    settings = page.get_by_role("region", name="Settings on each broker").get_by_role("row").nth(1)
    expect(settings.get_by_role("cell").nth(2)).to_have_text("3")
    page.get_by_role("button", name="Change").click()
    page.get_by_role("dialog").get_by_label("May consume", exact=True).uncheck()
    page.get_by_role("button", name="Save").click()
    expect(settings.get_by_role("cell").nth(1)).to_have_text("no")
    expect(settings.get_by_role("cell").nth(2)).to_have_text("3")
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type its name to be sure").fill("group-made-here")
    page.get_by_role("button", name="Delete for ever").click()
    expect(page).to_have_url(f"{url}/groups")
    expect(page.get_by_role("link", name="billing")).to_be_visible()
    expect(page.get_by_role("link", name="group-made-here")).to_have_count(0)


def test_a_group_with_members_is_not_deleted(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/group?name=billing")
    expect(page.get_by_role("region", name="Members")).to_contain_text("PYTHON")
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type its name to be sure").fill("billing")
    page.get_by_role("button", name="Delete for ever").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("stop them first")


def begin_reset(page: Page, topic: str, where: str) -> Locator:
    page.get_by_role("button", name="Move offsets").click()
    shown = page.get_by_role("dialog")
    shown.get_by_label("Topic").fill(topic)
    shown.get_by_label("Go on").select_option(where)
    return shown


def test_an_offline_group_moves_only_after_its_preview(open_page: Open, url: str, story: Story) -> None:
    story.producer.send_batch([Message("moved", b"%d" % at) for at in range(6)])
    with PullConsumer("mover", story.name_server) as reader:
        for queue in reader.queues("moved"):
            reader.commit(queue, reader.max_offset(queue))
    before = story.committed("mover", "moved")
    page = open_page(f"{url}/groups?filter=mover")
    page.get_by_role("link", name="mover").click()
    expect(page.get_by_role("region", name="Lag of each queue").get_by_role("row")).to_have_count(5)
    shown = begin_reset(page, "moved", "first")
    expect(shown.get_by_role("button", name="Move it")).to_be_hidden()
    shown.get_by_role("button", name="Preview").click()
    expect(shown.get_by_role("status")).to_contain_text("6 messages would be read again, 0 skipped")
    expect(shown.get_by_role("region", name="What would move").get_by_role("row")).to_have_count(5)
    expect(shown.get_by_role("region", name="What would move")).not_to_contain_text("done")
    expect(shown.get_by_role("list", name="What is lost")).to_contain_text("6 messages are handled a second")
    assert story.committed("mover", "moved") == before
    shown.get_by_role("button", name="Move it").click()
    expect(shown.get_by_role("status")).to_contain_text("Moved")
    expect(shown.get_by_role("region", name="What was moved")).to_contain_text("done")
    assert set(story.committed("mover", "moved").values()) == {0}


def test_an_offline_group_goes_on_at_an_offset_and_at_a_time(open_page: Open, url: str, story: Story) -> None:
    sent = [story.producer.send(Message("timed", b"%d" % at)) for at in range(8)]
    with PullConsumer("timer", story.name_server) as reader:
        for queue in reader.queues("timed"):
            reader.commit(queue, 0)
    page = open_page(f"{url}/groups?filter=timer")
    page.get_by_role("link", name="timer", exact=True).click()
    expect(page.get_by_role("region", name="Lag of each queue").get_by_role("row")).to_have_count(5)
    shown = begin_reset(page, "timed", "offset")
    shown.get_by_label("Offset").fill("1")
    shown.get_by_role("button", name="Preview").click()
    expect(shown.get_by_role("status")).to_contain_text("0 messages would be read again, 4 skipped")
    shown.get_by_role("button", name="Move it").click()
    expect(shown.get_by_role("status")).to_contain_text("Moved")
    assert set(story.committed("timer", "timed").values()) == {1}
    # A time before the first message is the first of each queue, forward and backward alike.
    shown.get_by_label("Go on").select_option("time")
    shown.get_by_label("Time").fill("2020-01-01T00:00:00")
    shown.get_by_role("button", name="Preview").click()
    expect(shown.get_by_role("status")).to_contain_text("4 messages would be read again, 0 skipped")
    shown.get_by_role("button", name="Move it").click()
    expect(shown.get_by_role("status")).to_contain_text("Moved")
    assert set(story.committed("timer", "timed").values()) == {0}
    assert len(sent) == 8


def test_a_preview_is_void_when_the_order_changes(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/group?name=audit")
    expect(page.get_by_role("region", name="Lag of each queue").get_by_role("row")).to_have_count(5)
    shown = begin_reset(page, "orders", "last")
    shown.get_by_role("button", name="Preview").click()
    expect(shown.get_by_role("button", name="Move it")).to_be_visible()
    shown.get_by_label("Go on").select_option("first")
    expect(shown.get_by_role("button", name="Move it")).to_be_hidden()


def test_members_that_are_connected_move_by_themselves(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/group?name=billing")
    expect(page.get_by_role("region", name="Lag of each queue")).to_contain_text("orders")
    shown = begin_reset(page, "orders", "offset")
    shown.get_by_role("button", name="Preview").click()
    expect(shown.get_by_role("alert")).to_contain_text("stop them first")
    expect(shown.get_by_role("button", name="Move it")).to_be_hidden()
    shown.get_by_label("Go on").select_option("first")
    shown.get_by_role("button", name="Preview").click()
    count = len(story.seen)
    shown.get_by_role("button", name="Move it").click()
    expect(shown.get_by_role("status")).to_contain_text("members are connected (1)")
    eventually(lambda: len(story.seen) >= count + ORDER_COUNT, 60, what="the group reads it all again")


def open_letters(page: Page) -> Locator:
    rows = page.get_by_role("region", name="Dead letters").get_by_role("row")
    expect(rows).to_have_count(5)
    return rows


def test_dead_letters_are_rehearsed_replayed_and_then_skipped(open_page: Open, url: str) -> None:
    page = open_page(f"{url}/dead-letters")
    page.get_by_role("link", name="mail").click()
    rows = open_letters(page)
    rows.nth(1).get_by_role("checkbox").check()
    rows.nth(2).get_by_role("checkbox").check()
    page.get_by_role("button", name="Rehearse").click()
    results = page.get_by_role("region", name="Results").get_by_role("row")
    expect(results).to_have_count(3)
    expect(results.nth(1)).to_contain_text("would replay")
    page.get_by_role("button", name="Replay 2").click()
    be_sure(page, "Replay for good", "Group mail gets them once more", "marked as replayed")
    expect(results.nth(1)).to_contain_text("replayed")
    expect(results.nth(1)).to_contain_text("%RETRY%mail on broker-a, queue 0, offset")
    expect(results.nth(2)).to_contain_text("replayed")
    expect(rows.nth(1).get_by_role("checkbox")).not_to_be_checked()
    expect(page.get_by_role("button", name="Replay", exact=True)).to_be_disabled()
    rows.nth(1).get_by_role("checkbox").check()
    page.get_by_role("button", name="Replay 1").click()
    be_sure(page, "Replay for good", "1 letter was replayed before, and is skipped")
    expect(results.nth(1)).to_contain_text("it was replayed before")


def test_a_dead_letter_is_mended_and_replayed(open_page: Open, url: str, story: Story) -> None:
    page = open_page(f"{url}/dead-letters?group=mail")
    rows = open_letters(page)
    rows.nth(4).get_by_role("button").click()
    shown = page.get_by_role("dialog")
    mended = json.dumps({"mail": 3, "to": "somebody"})
    shown.get_by_label("The mended body").fill(mended)
    shown.get_by_role("button", name="Replay it mended").click()
    be_sure(page, "Replay for good", "1 body mended here goes in place of the old")
    expect(shown.get_by_role("status")).to_contain_text("1 replayed")
    expect(shown.get_by_role("region", name="Results")).to_contain_text("with the mended body")
    with PullConsumer("looks", story.name_server) as reader:
        bodies = [
            message.body
            for queue in reader.queues("%RETRY%mail")
            for message in reader.pull(queue, 0).messages
        ]
    assert mended.encode() in bodies
