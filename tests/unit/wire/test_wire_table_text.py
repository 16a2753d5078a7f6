from hypothesis import given
from hypothesis import strategies as st

from pyromq.wire.bodies.table_text import TableText
from pyromq.wire.bodies.topic_bodies import TopicConfig, TopicConfigTable, encode_topic_table

BUCKETS = 2048
CHANGES = st.lists(st.tuples(st.text(max_size=3), st.integers(0, 9)), max_size=40)


@given(CHANGES, st.booleans(), st.integers(0, 40))
def test_a_table_kept_in_pieces_is_the_table_written_at_once(
    changes: list[tuple[str, int]], pretty: bool, looked_after: int
) -> None:
    configs: dict[str, TopicConfig] = {}
    text = TableText(BUCKETS)
    table = TopicConfigTable(topic_config_table=configs)
    for number, (name, queues) in enumerate(changes):
        if number == looked_after:
            encode_topic_table(table, pretty=pretty, text=text)
        configs[name] = TopicConfig(topic_name=name, read_queue_nums=queues)
        text.changed(name)
    assert encode_topic_table(table, pretty=pretty, text=text) == encode_topic_table(table, pretty=pretty)


def test_a_table_that_outgrows_its_buckets_is_in_the_order_of_more_buckets() -> None:
    configs: dict[str, TopicConfig] = {}
    text = TableText(BUCKETS)
    table = TopicConfigTable(topic_config_table=configs)
    for number in range(BUCKETS * 2):
        name = f"topic-{number}"
        configs[name] = TopicConfig(topic_name=name)
        text.changed(name)
    assert encode_topic_table(table, text=text) == encode_topic_table(table)


def test_after_a_change_only_its_own_piece_is_written_again() -> None:
    looked_up: list[str] = []

    class Counted(dict[str, TopicConfig]):
        def __getitem__(self, name: str) -> TopicConfig:
            looked_up.append(name)
            return super().__getitem__(name)

    configs = Counted({name: TopicConfig(topic_name=name) for name in ("a", "b", "c")})
    text = TableText(BUCKETS)
    for name in configs:
        text.changed(name)
    text.text(configs, depth=0, pretty=False)
    looked_up.clear()

    text.changed("b")
    text.text(configs, depth=0, pretty=False)
    assert looked_up == ["b"]
