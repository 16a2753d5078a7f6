"""Rates, what is looked at first, and lists, without a cluster."""

import re
from itertools import pairwise

import pytest

from pyromq.client.observation.counts import CountSeries
from pyromq.client.observation.snapshot import ClusterSnapshot
from pyromq.codes import Perm
from pyromq.dashboard import page_views
from pyromq.dashboard.app import STATIC
from pyromq.dashboard.message_pages import PREVIEW_BYTES_MAX, preview
from pyromq.dashboard.picture import GroupPicture, NameKind, Picture, TopicPicture, kind_of_group
from pyromq.dashboard.sampler import chosen
from pyromq.dashboard.security import Password, Sessions, is_allowed_host, is_loopback
from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.offset_bodies import GroupProgress, TopicOffset
from pyromq.wire.bodies.topic_bodies import TopicConfig


def test_a_rate_is_taken_over_some_seconds() -> None:
    series = CountSeries()
    for second in range(0, 31, 2):
        series.add(second * 1_000, second * 50)
    assert series.rate == pytest.approx(50)


def test_a_count_that_is_renewed_in_steps_has_an_even_rate() -> None:
    series = CountSeries()
    for second in range(61):
        series.add(second * 1_000, second // 5 * 500)
    late = [rate for at_ms, rate in series.points if at_ms > 20_000]
    assert all(60 < rate < 140 for rate in late)


def test_a_count_that_fell_begins_again() -> None:
    series = CountSeries()
    series.add(0, 1_000)
    series.add(2_000, 10)
    assert series.rate is None
    series.add(4_000, 20)
    assert series.rate == pytest.approx(5)


def topic(name: str, at_ms: int = 0, *, is_moving: bool = False) -> TopicPicture:
    made = TopicPicture(name, NameKind.NORMAL, {"broker-a": TopicConfig(topic_name=name)}, looked_at_ms=at_ms)
    if is_moving:
        made.series.add(0, 0)
        made.series.add(1_000, 10)
    return made


def test_a_round_takes_what_is_wanted_then_what_moves_then_what_waited_longest() -> None:
    topics = [
        topic("old", 1),
        topic("older", 0),
        topic("moving", 5, is_moving=True),
        topic("wanted", 9),
        topic("new", 8),
    ]
    names = [one.name for one in chosen(topics, {"wanted"}, 4, lambda one: one.is_moving)]
    assert names == ["wanted", "moving", "older", "old"]


def test_topics_that_move_never_take_the_whole_round() -> None:
    topics = [topic(f"m{at}", at, is_moving=True) for at in range(50)] + [topic("still", 99)]
    rounds = [chosen(topics, set(), 8, lambda one: one.is_moving)]
    assert len(rounds[0]) == 8
    assert sum(one.is_moving for one in rounds[0][:6]) == 6


def test_lag_is_what_lies_behind_a_group_in_each_queue() -> None:
    picture = Picture()
    queue = MessageQueue("orders", "broker-a", 0)
    picture.topics["orders"] = topic("orders")
    picture.topics["orders"].edges[queue] = TopicOffset(min_offset=0, max_offset=100)
    group = picture.groups["g"] = GroupPicture("g", NameKind.NORMAL)
    group.offsets["orders"] = {queue: 70, MessageQueue("orders", "broker-a", 1): 5}
    picture.measure_lags(1)
    assert group.lag == 30
    # What the group has read since the queue was looked at is no debt.
    group.offsets["orders"] = {queue: 120}
    picture.measure_lags(2)
    assert group.lag == 0


def test_the_lag_of_a_group_that_pops_is_what_waits_and_what_is_in_flight() -> None:
    picture, seen = Picture(), ClusterSnapshot()
    queue = MessageQueue("orders", "broker-a", 0)
    picture.topics["orders"] = topic("orders")
    picture.topics["orders"].edges[queue] = TopicOffset(min_offset=0, max_offset=100)
    group = picture.groups["g"] = GroupPicture("g", NameKind.NORMAL)
    # What is popped and not finished begins at 40; of the thirty popped since then, 25 are acknowledged.
    group.offsets["orders"] = {queue: 40}
    seen.progress["g"] = {
        queue: GroupProgress(broker_offset=100, consumer_offset=40, pull_offset=70, in_flight=5)
    }

    picture.take_progress(seen, [group])
    picture.measure_lags(1)

    assert (group.lag, group.in_flight) == (35, 5)
    (row,) = page_views.group(picture, {"name": "g"})["queues"]
    assert (row["lag"], row["inFlight"], row["at"]) == (35, 5, 40)


def test_a_group_that_pops_no_more_is_behind_what_it_committed() -> None:
    picture, seen = Picture(), ClusterSnapshot()
    group = picture.groups["g"] = GroupPicture("g", NameKind.NORMAL)
    queue = MessageQueue("orders", "broker-a", 0)
    group.popped = {queue: GroupProgress(broker_offset=9, pull_offset=9, in_flight=1)}
    seen.progress["g"] = {queue: GroupProgress(broker_offset=9, consumer_offset=9)}

    picture.take_progress(seen, [group])

    assert group.in_flight is None


def test_a_list_is_cut_to_a_page_and_says_how_many_there_are() -> None:
    picture = Picture(topics={f"t{at:03}": topic(f"t{at:03}") for at in range(120)})
    shown = page_views.topics(picture, {"page": "3"})
    assert (shown["page"], shown["pages"], shown["total"], len(shown["rows"])) == (3, 3, 120, 20)
    assert page_views.topics(picture, {"page": "99"})["page"] == 3
    found = page_views.topics(picture, {"filter": "T11", "size": "5"})["rows"]
    assert [row["name"] for row in found] == [f"t{at}" for at in range(110, 115)]


@pytest.mark.parametrize("page", ["x", "-1", "1.5", "١"])
def test_a_page_that_is_no_number_is_refused(page: str) -> None:
    with pytest.raises(ConfigError):
        page_views.topics(Picture(), {"page": page})


def test_a_long_history_is_thinned_and_keeps_its_last_point() -> None:
    picture = Picture()
    picture.incoming.extend((at, float(at)) for at in range(900))
    points = page_views.overview(picture, {})["inPoints"]
    assert len(points) <= page_views.CHART_POINTS
    assert points[-1] == [899, 899.0]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("orders", NameKind.NORMAL),
        ("%RETRY%billing", NameKind.RETRY),
        ("%DLQ%billing", NameKind.DEAD),
        ("RMQ_SYS_TRACE_TOPIC", NameKind.SYSTEM),
        ("DefaultCluster_REPLY_TOPIC", NameKind.SYSTEM),
        ("TRANS_CHECK_MAX_TIME_TOPIC", NameKind.SYSTEM),
    ],
)
def test_topics_are_told_apart_by_their_names(name: str, kind: NameKind) -> None:
    assert Picture().kind_of_topic(name) is kind


def test_the_brokers_own_groups_are_told_apart() -> None:
    assert kind_of_group("TOOLS_CONSUMER") is NameKind.SYSTEM
    assert kind_of_group("billing") is NameKind.NORMAL


def test_a_body_is_shown_in_the_forms_that_it_has() -> None:
    assert preview(b'{"b":12345678901234567890}')["json"] == '{\n  "b": 12345678901234567890\n}'
    assert preview(b"plain")["json"] is None
    assert preview(b"\xff\xfe")["text"] is None
    long = preview("ä".encode() * PREVIEW_BYTES_MAX)
    assert long["isCut"]
    assert len(long["text"].encode()) <= PREVIEW_BYTES_MAX
    assert preview(b"[" * 50_000)["json"] is None


def test_permissions_are_words() -> None:
    config = TopicConfig(topic_name="t", perm=int(Perm.READ))
    picture = Picture(topics={"t": TopicPicture("t", NameKind.NORMAL, {"broker-a": config})})
    assert page_views.topic(picture, {"name": "t"})["configs"][0]["permText"] == "R"


def test_a_password_is_compared_by_its_hash() -> None:
    password = Password("secret")
    assert password.is_it("secret")
    assert not password.is_it("Secret")
    assert "secret" not in str(vars(password))


def test_a_visit_ends_by_time_and_by_the_log_out() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    visit, other = sessions.begin(), sessions.begin()
    assert sessions.find(visit.token) is visit
    sessions.end(visit)
    assert sessions.find(visit.token) is None
    clock.advance(13 * 3_600_000)
    assert sessions.find(other.token) is None
    assert sessions.find(None) is None


@pytest.mark.parametrize(
    ("header", "is_allowed"),
    [
        ("localhost:9870", True),
        ("127.0.0.1:9870", True),
        ("[::1]:9870", True),
        ("10.0.0.5", True),
        ("evil.example.org:9870", False),
        ("127.0.0.1.evil.example.org", False),
        ("", False),
    ],
)
def test_a_host_is_the_server_s_own_name_or_an_address(header: str, is_allowed: bool) -> None:
    assert is_allowed_host(header, frozenset({"localhost"})) is is_allowed


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost", "127.3.4.5")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.5", "example.org")))


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["text", "faint", "link", "good", "bad", "warm"])
def test_text_stands_out_from_its_ground(theme: int, name: str) -> None:
    blocks = re.findall(r":root[^{]*\{(.*?)\}", (STATIC / "style.css").read_text(), re.DOTALL)
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[theme]))
    for ground in ("card", "ground"):
        light, dark = sorted((luminance(colors[name]), luminance(colors[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_scripts_fetch_nothing_from_elsewhere_and_write_no_markup() -> None:
    scripts = {path.name: path.read_text() for path in STATIC.glob("*.js")}
    assert len(scripts) > 10
    for name, text in scripts.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text), name
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == [], name


def test_points_of_a_series_are_in_the_order_of_time() -> None:
    series = CountSeries()
    for at in range(10):
        series.add(at * 1_000, at)
    assert all(one[0] < other[0] for one, other in pairwise(series.points))
