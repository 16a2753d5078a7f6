"""Which queues a pop reads, in which order, and when what is kept of that is forgotten."""

from pathlib import Path

import msgspec
import pytest

from pyromq.broker.pop import pop_places
from pyromq.broker.pop.pop_asks import PopAsk
from pyromq.broker.pop.pop_names import retry_topics_of
from pyromq.broker.pop.pop_places import PopPlaces
from pyromq.broker.topics.topics import TopicTable
from pyromq.config.pop_settings import PopSettings
from pyromq.config.settings import BrokerSettings
from pyromq.testing.manual_clock import ManualClock

V1, V2 = retry_topics_of("readers", "orders")


@pytest.fixture
async def topics(tmp_path: Path) -> TopicTable:
    table = TopicTable(tmp_path / "topics.json", BrokerSettings(), ManualClock())
    table.ensure("orders", queue_count=3)
    return table


def change(settings: PopSettings, name: str, value: object) -> None:
    """Change a setting while the broker runs."""
    object.__setattr__(settings, name, value)


async def test_queues_take_turns_and_retries_are_first_in_every_fifth_pop(topics: TopicTable) -> None:
    places = PopPlaces(topics, PopSettings(pop_from_retry_probability=20))
    ask = PopAsk("readers", "orders")
    orders = [places.in_order(ask) for _ in range(6)]
    assert [[number for topic, number in order if topic == "orders"] for order in orders] == [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
    ]
    assert [order[0][0] == V1 for order in orders] == [True, False, False, False, False, True]
    assert all(order.count((V1, 0)) == 1 for order in orders)


async def test_groups_take_turns_of_their_own(topics: TopicTable) -> None:
    places = PopPlaces(topics, PopSettings(pop_from_retry_probability=0))
    assert places.in_order(PopAsk("readers", "orders"))[0] == ("orders", 0)
    assert places.in_order(PopAsk("others", "orders"))[0] == ("orders", 0)
    assert places.in_order(PopAsk("readers", "orders"))[0] == ("orders", 1)


async def test_one_queue_an_ordered_group_and_a_retry_topic_have_no_more(topics: TopicTable) -> None:
    places = PopPlaces(topics, PopSettings())
    topics.ensure(V1, queue_count=1)
    assert places.of("readers", "orders", 2) == [("orders", 2), (V1, 0)]
    assert places.of("readers", "orders", is_fifo=True) == [("orders", 0), ("orders", 1), ("orders", 2)]
    assert places.of("readers", V1) == [(V1, 0)]
    assert places.of("readers", "nothing") == []
    assert places.in_order(PopAsk("readers", "nothing")) == []


async def test_a_topic_that_grows_is_read_whole_at_once(topics: TopicTable) -> None:
    places = PopPlaces(topics, PopSettings())
    assert len(places.of("readers", "orders", is_fifo=True)) == 3
    config = topics.get("orders")
    assert config is not None
    topics.put(msgspec.structs.replace(config, read_queue_nums=5))
    assert len(places.of("readers", "orders", is_fifo=True)) == 5
    topics.remove("orders")
    assert places.of("readers", "orders", is_fifo=True) == []


async def test_settings_that_change_are_followed_at_once(topics: TopicTable) -> None:
    settings = PopSettings()
    places = PopPlaces(topics, settings)
    assert places.of("readers", "orders")[3:] == [(V1, 0)]
    change(settings, "enable_retry_topic_v2", True)
    change(settings, "retrieve_message_from_pop_retry_topic_v1", True)
    assert places.of("readers", "orders")[3:] == [(V2, 0), (V1, 0)]
    change(settings, "retrieve_message_from_pop_retry_topic_v1", False)
    assert places.of("readers", "orders")[3:] == [(V2, 0)]


async def test_a_retry_topic_of_the_other_version_is_read_as_soon_as_it_is_there(topics: TopicTable) -> None:
    places = PopPlaces(topics, PopSettings())
    assert places.of("readers", "orders")[3:] == [(V1, 0)]
    topics.ensure(V2, queue_count=1)
    assert places.of("readers", "orders")[3:] == [(V1, 0), (V2, 0)]


async def test_what_is_kept_is_bounded(topics: TopicTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_places, "_KEPT_MAX", 40)
    places = PopPlaces(topics, PopSettings())
    for number in range(500):
        assert len(places.of(f"readers-{number}", "orders")) == 4
        assert len(places._kept) <= 12
