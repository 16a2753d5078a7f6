"""Real, unmodified clients on our servers: each lives through one story; each test asks one thing of it."""

from collections import defaultdict

import pytest
from harness.clients import CLIENTS
from harness.missing import unavailable
from harness.observer import Observer
from harness.servers import Cluster
from harness.story import PROBE, WANTED_TAGS, Story, tell
from harness.toolchains import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def stories() -> dict[tuple[str, str], Story | Exception]:
    """Stories told in this session: a client and a kind of servers → what happened."""
    return {}


@pytest.fixture(params=CLIENTS)
def story(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    observer: Observer,
    stories: dict[tuple[str, str], Story | Exception],
    tmp_path_factory: pytest.TempPathFactory,
) -> Story:
    """What happened to one client on one kind of servers; told once, however many tests ask."""
    key = (request.param, cluster.kind)
    if key not in stories:
        folder = tmp_path_factory.mktemp(request.param)
        try:
            program = CLIENTS[request.param].start(folder, cluster.name_server)
        except Unavailable as reason:
            unavailable(reason)
        try:
            stories[key] = tell(program, cluster, observer, request.param.replace(".", "_"))
        except Exception as error:  # noqa: BLE001 the other tests of this story fail for the same reason
            stories[key] = error
        finally:
            program.close()
    told = stories[key]
    if isinstance(told, Exception):
        raise told
    return told


def test_every_message_is_stored_once(story: Story) -> None:
    assert story.stored_count == story.total
    assert sorted(story.stored) == list(range(story.total))


@pytest.mark.row("MM-03", "MM-04", "PR-17")
def test_a_send_is_answered_with_where_the_message_lies(story: Story) -> None:
    single = [event for event in story.sent if event["mode"] != "batch"]

    assert single
    for event in single:
        message = story.stored[event["index"]]
        assert event["offset"] == message.offset
        assert event["broker"] in (None, message.broker)
        assert event["queue"] in (None, message.queue)
        assert event["offset_id"] in (None, message.offset_id)
        assert event["id"] in (None, message.properties.get("UNIQ_KEY"))


@pytest.mark.row("BA-01", "BA-07")
def test_a_batch_is_answered_with_the_ids_of_all_its_messages(story: Story) -> None:
    batches = [event for event in story.sent if event["mode"] == "batch"]
    if "batch" not in story.can:
        assert not batches
        return
    for event in batches:
        messages = [story.stored[event["index"] + step] for step in range(len(event["offset_id"].split(",")))]
        assert event["offset_id"] == ",".join(message.offset_id for message in messages)
        assert [message.offset for message in messages] == [
            event["offset"] + step for step in range(len(messages))
        ]
        # The Go client makes no id of its own for a batch.
        assert event["id"] in ("", ",".join(key for message in messages for key in message.unique_keys[:1]))


@pytest.mark.row("CO-02", "MM-01")
def test_every_message_is_consumed_as_it_was_sent(story: Story) -> None:
    consumed = list(story.consumed("one", "two"))

    assert consumed
    for event in consumed:
        index = int(event["properties"]["index"])
        assert event["topic"] == story.topic
        assert event["body"] == f"body {index} é中" + ("x" * 5000 if index % 100 == 7 else "")
        assert event["keys"] == f"key-{index} all"
        assert event["tags"] == f"tag-{index % 3}"
        assert event["properties"]["note"] == f"naïve 中文 {index}"
        assert event["times"] == 0


@pytest.mark.row("MM-04")
def test_a_consumed_message_says_where_it_lies(story: Story) -> None:
    consumed = list(story.consumed("one", "two", "three", "four"))

    assert consumed
    for event in consumed:
        message = story.stored[int(event["properties"]["index"])]
        assert (event["queue"], event["offset"], event["position"]) == (
            message.queue,
            message.offset,
            message.position,
        )
        assert event["broker"] in (None, message.broker)
        assert event["offset_id"] in (None, message.offset_id)
        assert event["id"] in (None, message.properties.get("UNIQ_KEY", message.offset_id))


@pytest.mark.row("CO-03", "RB-01", "RB-02", "RB-03", "RB-07")
def test_two_members_of_a_group_share_the_queues_evenly(story: Story) -> None:
    owners = defaultdict(set)
    for event in story.shared:
        message = story.stored[int(event["properties"]["index"])]
        owners[message.broker, message.queue].add(event["member"])
    assert owners.keys() == story.ends.keys()
    assert all(len(members) == 1 for members in owners.values())
    assert sum(members == {"one"} for members in owners.values()) == len(owners) // 2


@pytest.mark.row("RB-02")
def test_the_member_that_stays_gets_all_the_queues(story: Story) -> None:
    messages = [story.stored[int(event["properties"]["index"])] for event in story.alone]
    assert {event["member"] for event in story.alone} == {"one"}
    assert {(message.broker, message.queue) for message in messages} == story.ends.keys()


@pytest.mark.row("MM-12", "OF-07")
def test_the_committed_offsets_are_the_ends_of_the_queues(story: Story) -> None:
    assert story.committed == story.ends


def test_a_member_that_takes_over_goes_on_where_the_last_one_stopped(story: Story) -> None:
    assert story.orderly_committed == story.orderly_ends
    if "takeover" in story.can:
        assert {int(event["properties"]["index"]) for event in story.consumed("four")} == set(
            range(story.total - PROBE, story.total)
        )


def test_each_queue_is_consumed_in_its_order(story: Story) -> None:
    seen: dict[tuple[str, int], list[int]] = defaultdict(list)
    for event in story.consumed(*(("three", "four") if "orderly" in story.can else ("one", "two"))):
        message = story.stored[int(event["properties"]["index"])]
        if message.offset not in seen[message.broker, message.queue]:  # at least once: a move may repeat some
            seen[message.broker, message.queue].append(message.offset)
    ends = story.orderly_ends if "orderly" in story.can else story.ends
    assert seen == {queue: list(range(end)) for queue, end in ends.items()}


@pytest.mark.row("FI-01")
def test_a_group_that_wants_two_tags_gets_all_of_them_and_nothing_else(story: Story) -> None:
    assert {event["tags"] for event in story.consumed("five")} == set(WANTED_TAGS)
    assert {int(event["properties"]["index"]) for event in story.consumed("five")} == {
        index for index in story.stored if f"tag-{index % 3}" in WANTED_TAGS
    }


@pytest.mark.row("CO-01")
def test_a_lite_pull_consumer_reads_and_commits_everything(story: Story) -> None:
    if story.lite_committed:
        assert {int(event["properties"]["index"]) for event in story.consumed("six")} == set(
            range(story.total)
        )
        assert story.lite_committed == story.last_ends


@pytest.mark.row("PR-18", "PR-19")
def test_the_questions_that_a_client_can_ask_are_answered(story: Story) -> None:
    if "ask" in story.can:
        queue = (story.answer["broker"], story.answer["queue"])
        in_queue = [one for one in story.stored.values() if (one.broker, one.queue) == queue]
        assert (story.answer["min"], story.answer["max"]) == (0, story.last_ends[queue])
        assert story.answer["earliest"] == min(one.stored_at_ms for one in in_queue)
        assert story.answer["by_time"] == 0
        assert story.answer["by_key"] == [story.asked]
        assert (story.answer["by_id"], story.answer["by_offset_id"]) == (story.asked, story.asked)


def test_messages_sent_one_after_the_other_lie_in_that_order(story: Story) -> None:
    queues: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for event in story.sent:
        if event["mode"] == "sync":
            message = story.stored[event["index"]]
            queues[message.broker, message.queue].append((event["index"], message.offset))
    assert all(offsets == sorted(offsets, key=lambda pair: pair[1]) for offsets in queues.values())


def test_the_program_stops_cleanly(story: Story) -> None:
    assert story.status == 0
    assert story.left_behind == {story.group: [], story.orderly_group: []}
