"""Java's hash and the order of its maps. Apache's own figures are in tests/conformance."""

from pyromq.model import MessageQueue
from pyromq.wire.java_hash import java_hash, java_map_order, java_queue_hash, java_queue_order


def test_a_hash_is_signed_and_counts_utf16_units() -> None:
    assert java_hash("TagA") == 2598919
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


def test_half_a_surrogate_pair_hashes_too() -> None:
    assert java_hash("\ud83d") == 0xD83D


def test_a_queue_hashes_over_broker_id_and_topic() -> None:
    queue = MessageQueue("T", "b", 2)

    assert java_queue_hash(queue) == ((31 + 98) * 31 + 2) * 31 + 84


def test_a_map_of_more_than_three_quarters_doubles() -> None:
    keys = tuple(chr(65 + index) for index in range(13))

    # 13 keys need 32 buckets; A is 65, so these are buckets 1 to 13.
    assert java_map_order(tuple(reversed(keys))) == keys


def test_keys_of_one_bucket_keep_the_order_in_which_they_came() -> None:
    assert java_map_order(("BB", "Aa")) == ("BB", "Aa")
    assert java_map_order(("Aa", "BB")) == ("Aa", "BB")


def test_queues_are_ordered_by_bucket() -> None:
    queues = [MessageQueue("TopicTest", "broker-a", queue_id) for queue_id in range(4)]

    assert [queue.queue_id for queue in java_queue_order(queues)] == [3, 2, 1, 0]
