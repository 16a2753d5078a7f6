"""The decisions of a push consumer that need nobody: flow, shares, outcomes, subscriptions, arguments."""

import asyncio
from datetime import UTC, datetime

import pytest
from push_messages import QUEUE, received, several

from pyromq.client.consumer import allocation, in_use
from pyromq.client.consumer.consume_figures import Figures
from pyromq.client.consumer.consumer_arguments import start_time_ms, with_changes
from pyromq.client.consumer.flow_limits import FlowLimits, limits, why_full
from pyromq.client.consumer.queue_progress import QueueProgress
from pyromq.client.consumer.rebalancer import changes, share, without_subscription
from pyromq.client.consumer.topic_subscription import renewed, retry_topic, subscription
from pyromq.client.identity import new_identity
from pyromq.client.push.consume_outcome import Work, as_result, split, suspend_s
from pyromq.client.push.delivery import ConsumeResult
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.push.terms import new_terms
from pyromq.config.settings import MIB, ClientSettings
from pyromq.errors import AlreadyStarted, ConfigError, MessageIllegal
from pyromq.model import ConsumeFrom, MessageQueue
from pyromq.wire.java_hash import java_hash

NOW = 1_000_000


def queues(count: int, topic: str = "orders") -> list[MessageQueue]:
    return [MessageQueue(topic, "a", number) for number in range(count)]


# Flow ----------------------------------------------------------------------------------------------------


@pytest.mark.row("CO-07")
def test_the_defaults_are_a_thousand_messages_a_hundred_mib_and_a_span_of_two_thousand() -> None:
    assert limits(ClientSettings(), 4) == FlowLimits(messages=1_000, mib=100, span=2_000)


@pytest.mark.row("CO-07")
@pytest.mark.parametrize(
    ("messages", "limit", "why"),
    [
        (several(1, 2), FlowLimits(2, 100, 2_000), None),
        (several(1, 2, 3), FlowLimits(2, 100, 2_000), "3 messages wait; 2 are the limit"),
        ([received(1, size=2 * MIB)], FlowLimits(9, 2, 2_000), None),
        ([received(1, size=3 * MIB)], FlowLimits(9, 2, 2_000), "3 MiB wait; 2 are the limit"),
        (several(1, 11), FlowLimits(9, 2, 10), None),
        (several(1, 12), FlowLimits(9, 2, 10), "the unfinished messages span 11 offsets; 10 are the limit"),
    ],
)
def test_a_queue_is_full_above_its_limits(messages, limit: FlowLimits, why: str | None) -> None:
    state = ProcessQueue(QUEUE, NOW)
    state.put(messages)

    assert why_full(state, limit, is_orderly=False) == why


def test_the_span_does_not_matter_in_order() -> None:
    state = ProcessQueue(QUEUE, NOW)
    state.put(several(1, 5_000))

    assert why_full(state, FlowLimits(9, 9, 10), is_orderly=True) is None


@pytest.mark.row("CO-07")
def test_a_limit_of_the_topic_is_shared_among_the_queues() -> None:
    settings = ClientSettings(pull_threshold_for_topic=100, pull_threshold_size_for_topic=10)

    assert limits(settings, 8) == FlowLimits(12, 1, 2_000)
    assert limits(settings, 1_000) == FlowLimits(1, 1, 2_000)
    assert limits(settings, 0) == FlowLimits(1_000, 100, 2_000)


# Shares --------------------------------------------------------------------------------------------------


@pytest.mark.row("RB-01")
def test_members_that_see_the_same_in_another_order_share_without_overlap() -> None:
    mixed = list(reversed(queues(5)))

    shares = [share(allocation.average, "g", member, mixed, ["b", "c", "a"]) for member in "abc"]

    assert sorted(queue for part in shares for queue in part) == queues(5)


@pytest.mark.row("RB-05")
def test_a_member_beyond_the_number_of_queues_gets_none() -> None:
    assert share(allocation.average, "g", "c", queues(2), ["a", "b", "c"]) == set()


def owned(*which: MessageQueue) -> dict[MessageQueue, ProcessQueue]:
    return {queue: ProcessQueue(queue, NOW) for queue in which}


def test_what_is_no_longer_wanted_goes_and_what_is_new_comes() -> None:
    one, two, three = queues(3)

    change = changes("orders", {two, three}, owned(one, two), NOW, 120_000)

    assert (change.gone, change.new) == ([one], [three])


def test_another_topics_queues_stay() -> None:
    other = MessageQueue("payments", "a", 0)

    assert changes("orders", set(), owned(other), NOW, 120_000).gone == []


def test_a_wanted_queue_that_nobody_pulls_goes() -> None:
    (queue,) = queues(1)

    change = changes("orders", {queue}, owned(queue), NOW + 120_001, 120_000)

    assert (change.gone, change.new) == ([queue], [])


def test_a_wanted_queue_that_could_not_be_let_go_must_go_first() -> None:
    (queue,) = queues(1)
    having = owned(queue)
    having[queue].is_leaving = True

    change = changes("orders", {queue}, having, NOW, 120_000)

    assert (change.gone, change.new) == ([queue], [])


def test_queues_of_topics_without_a_subscription_go() -> None:
    one, other = MessageQueue("orders", "a", 0), MessageQueue("payments", "a", 0)

    assert without_subscription([one, other], {"orders"}) == [other]


# Outcomes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, True, ConsumeResult.SUCCESS])
def test_none_true_and_success_are_a_success(answer: object) -> None:
    assert as_result(answer) is ConsumeResult.SUCCESS


@pytest.mark.parametrize("answer", [False, ConsumeResult.RECONSUME_LATER])
def test_false_and_later_are_a_failure(answer: object) -> None:
    assert as_result(answer) is ConsumeResult.RECONSUME_LATER


def test_an_answer_that_means_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="the listener returned 7; return None, True"):
        as_result(7)


def test_an_exception_is_a_failure_whatever_was_answered() -> None:
    work = Work(None, several(1), QUEUE)
    work.result, work.error = ConsumeResult.SUCCESS, ValueError()

    assert work.verdict is ConsumeResult.RECONSUME_LATER


@pytest.mark.row("CO-10")
@pytest.mark.parametrize(
    ("verdict", "ack_index", "done"),
    [
        (ConsumeResult.SUCCESS, None, 3),
        (ConsumeResult.SUCCESS, 99, 3),
        (ConsumeResult.SUCCESS, 0, 1),
        (ConsumeResult.SUCCESS, -1, 0),
        (ConsumeResult.RECONSUME_LATER, 1, 0),
        (ConsumeResult.RECONSUME_LATER, None, 0),
    ],
)
def test_of_a_batch_those_up_to_the_ack_index_are_done(verdict, ack_index, done: int) -> None:
    messages = several(1, 2, 3)

    assert split(messages, verdict, ack_index) == (messages[:done], messages[done:])


@pytest.mark.row("OR-04")
@pytest.mark.parametrize(
    ("wanted", "seconds"), [(None, 1.0), (-1, 1.0), (0, 0.01), (9, 0.01), (500, 0.5), (99_999, 30.0)]
)
def test_a_failed_queue_in_order_waits_a_second_and_from_ten_milliseconds_to_half_a_minute(
    wanted: int | None, seconds: float
) -> None:
    assert suspend_s(wanted, 1_000) == seconds


# Subscriptions -------------------------------------------------------------------------------------------


def test_tags_travel_with_their_hashes() -> None:
    wanted = subscription("orders", "paid || refunded", version=7)

    assert wanted.sub_string == "paid || refunded"
    assert wanted.tags == ["paid", "refunded"]
    assert wanted.tag_codes == [java_hash("paid"), java_hash("refunded")]
    assert (wanted.expression_type, wanted.sub_version) == ("TAG", 7)


@pytest.mark.parametrize("tags", ["*", ""])
def test_all_tags_are_a_star(tags: str) -> None:
    wanted = subscription("orders", tags, version=7)

    assert (wanted.sub_string, wanted.tags, wanted.tag_codes) == ("*", [], [])


def test_sql_travels_as_it_is() -> None:
    wanted = subscription("orders", sql="amount > 10", version=7)

    assert (wanted.expression_type, wanted.sub_string, wanted.tags) == ("SQL92", "amount > 10", [])


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"tags": "||"}, "names no tag"),
        ({"tags": "paid", "sql": "a > 1"}, "give one of them"),
        ({"sql": " "}, "is empty"),
    ],
)
def test_a_subscription_that_wants_nothing_is_refused(how: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        subscription("orders", **how, version=7)


def test_a_topic_that_cannot_be_is_refused() -> None:
    with pytest.raises(MessageIllegal):
        subscription("or ders", version=7)


def test_a_newer_version_is_always_newer() -> None:
    wanted = subscription("orders", version=7)

    assert renewed(wanted, 9).sub_version == 9
    assert renewed(wanted, 7).sub_version == 8


def test_the_retry_topic_is_the_groups() -> None:
    assert retry_topic("billing") == "%RETRY%billing"


# Progress ------------------------------------------------------------------------------------------------


def test_progress_rises_and_is_set_back_only_on_purpose() -> None:
    progress = QueueProgress()
    assert progress.finished is None
    progress.finish_to(5)
    progress.finish_to(3)
    assert progress.finished == 5

    progress.place(3, finished=3, committed=None)

    assert (progress.finished, progress.due, progress.next_offset) == (3, 3, 3)


# Arguments -----------------------------------------------------------------------------------------------


def terms(**more):
    given = {
        "group": "billing",
        "name_server": "127.0.0.1:9876",
        "listener": print,
        "batch_listener": None,
        "model": "clustering",
        "order": "concurrent",
        "settings": None,
        "allocate": allocation.average,
        "consume_from": ConsumeFrom.LAST_OFFSET,
        "consume_timestamp": None,
        "hooks": (),
        "mode": "pull",
        "changes": {},
        "on_threads": False,
    }
    return new_terms(**(given | more))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"group": "DEFAULT_CONSUMER"}, "give this client its own"),
        ({"listener": asyncio.sleep, "on_threads": True}, "use pyromq.aio.PushConsumer"),
        ({"group": "a b"}, "may have only"),
        ({"model": "cluster"}, "it must be 'clustering' or 'broadcasting'"),
        ({"order": "random"}, "it must be 'concurrent' or 'orderly'"),
        ({"mode": "poll"}, "it must be 'pull' or 'pop'"),
        ({"mode": "pop", "model": "broadcasting"}, "leave it out"),
        ({"mode": "pop", "consume_from": ConsumeFrom.TIMESTAMP}, "pyromq group reset"),
        ({"mode": "pop", "allocate": allocation.average_by_circle}, "setConsumeMode"),
        ({"mode": "pop", "changes": {"pop_batch_nums": 33}}, "32 is the most"),
        ({"listener": None}, "needs a listener"),
        ({"batch_listener": print}, "give one of them"),
        ({"changes": {"consume_thread_min": 0}}, "consume_thread_min is 0; 1 is the least"),
        ({"changes": {"consume_thread_max": 1_001}}, "consume_thread_max is 1001; 1000 is the most"),
        ({"changes": {"consume_thread_max": 3}}, r"consume_thread_min \(20\) is larger.*so set both"),
        ({"changes": {"pull_batch_size": 1_025}}, "pull_batch_size is 1025; 1024 is the most"),
        ({"changes": {"consume_threads_max": 3}}, "did you mean consume_thread_max"),
        ({"changes": {"consume_message_batch_max_size": 2}}, "is for a batch_listener"),
        ({"consume_timestamp": "yesterday"}, "yyyyMMddHHmmss"),
    ],
)
def test_arguments_that_no_consumer_can_start_with_are_refused(more, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        terms(**more)


@pytest.mark.row("CO-08")
def test_twenty_listener_calls_run_at_once_unless_told_otherwise() -> None:
    settings = terms().settings
    assert (settings.consume_thread_min, settings.consume_thread_max) == (20, 20)
    assert with_changes(None, {"consume_thread_min": 3}).consume_thread_min == 3


@pytest.mark.row("OF-05")
def test_a_new_group_by_time_starts_at_a_local_time_or_half_an_hour_ago() -> None:
    local = datetime(2026, 11, 16, 2, 45, 7).astimezone()

    assert start_time_ms("20261116024507", NOW) == int(local.timestamp() * 1_000)
    assert start_time_ms(datetime(1970, 1, 1, 0, 1, tzinfo=UTC), NOW) == 60_000
    assert start_time_ms(None, 10_000_000) == 10_000_000 - 1_800_000


@pytest.mark.row("OF-02")
def test_a_broadcasting_consumer_is_the_same_client_when_it_comes_back() -> None:
    settings = ClientSettings(client_ip="10.1.2.3")

    assert new_identity(settings, keeps_instance=True).client_id == "10.1.2.3@DEFAULT"
    assert new_identity(settings).client_id != new_identity(settings).client_id


def test_a_group_has_one_member_under_one_client_id() -> None:
    in_use.enter("client", "g")
    try:
        with pytest.raises(AlreadyStarted, match="instance_name"):
            in_use.enter("client", "g")
        in_use.enter("other", "g")
        in_use.leave("other", "g")
    finally:
        in_use.leave("client", "g")
    in_use.enter("client", "g")
    in_use.leave("client", "g")


# Figures -------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_last_minute_and_failures_those_of_the_hour() -> None:
    figures = Figures()
    figures.pulled("orders", 30, 8, NOW)
    figures.pulled("orders", 30, 4, NOW)
    figures.consumed("orders", 58, 2, 30, NOW)

    now = figures.rates("orders", NOW + 20_000)
    assert (now.pull_ms, now.pulled_a_second, now.call_ms) == (6.0, 1.0, 0.5)
    assert (now.failed_in_hour, round(now.done_a_second * 60)) == (2, 58)
    later = figures.rates("orders", NOW + 120_000)
    assert (later.pulled_a_second, later.failed_in_hour) == (0.0, 2)
    assert figures.rates("orders", NOW + 3_700_000).failed_in_hour == 0
    assert figures.rates("unknown", NOW).pull_ms == 0.0
