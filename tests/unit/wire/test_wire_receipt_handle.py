import pytest

from pyromq.errors import HeaderError
from pyromq.wire.receipt_handle import ReceiptHandle, decode_receipt_handle, real_topic_of

HANDLE = ReceiptHandle(7, 1_794_800_000_000, 60_000, 3, 1, "broker-a", 2, 9, 4_711)
TEXT = "7 1794800000000 60000 3 1 broker-a 2 9 4711"


def test_a_handle_is_nine_words() -> None:
    assert HANDLE.encode() == TEXT
    assert decode_receipt_handle(TEXT) == HANDLE
    assert HANDLE.visible_at_ms == 1_794_800_060_000


def test_eight_words_are_enough_and_say_nothing_of_the_place() -> None:
    assert HANDLE.encode_short() == TEXT.removesuffix(" 4711")
    decoded = decode_receipt_handle(HANDLE.encode_short())
    assert (decoded.offset, decoded.position) == (9, 0)
    # RocketMQ 5.5 writes ten words after a change, the eighth of them 0.
    assert decode_receipt_handle(f"{HANDLE.encode_short()} 0 4711").position == 0
    assert decode_receipt_handle(f"{HANDLE.encode_short()} -1").position == 0


def test_the_real_topic_follows_from_the_mark() -> None:
    assert HANDLE.real_topic("g_1", "orders") == "%RETRY%g_1_orders"
    assert real_topic_of("g_1", "orders", 0) == "orders"
    assert real_topic_of("g_1", "orders", 2) == "%RETRY%g_1+orders"
    assert HANDLE.real_topic("g_1", "%RETRY%g_1_orders") == "%RETRY%g_1_orders"


def test_messages_in_order_are_known_by_their_revive_queue() -> None:
    assert decode_receipt_handle("7 1 60000 999 0 b 2 9").is_fifo
    assert not HANDLE.is_fifo


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "handle",
        "7 1 60000 3 1 broker-a 2",
        "7 1 60000 3 1  2 9",
        "7 1 60000 3 1 broker-a 2 nine",
        "7 1 60000 3 1 broker-a 2 ٩",
        "7 1 60000 3 1 broker-a 2 6",
        "7 1 60000 3 3 broker-a 2 9",
        "-1 1 60000 3 1 broker-a 2 9",
        "7 -1 60000 3 1 broker-a 2 9",
        "7 1 -1 3 1 broker-a 2 9",
        "7 1 60000 -3 1 broker-a 2 9",
        "7 1 60000 3 1 broker-a -2 9",
        "7 1 60000 3 1 broker-a 2147483648 9",
        "7 1 60000 3 1 broker-a 2 9223372036854775808",
        "7 1 60000 3 1 broker-a 2 99999999999999999999",
        "7 1 60000 3 1 broker-a 2 9 place",
        "7 1 60000 3 1 " + "b" * 1_000 + " 2 9",
    ],
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="no receipt handle"):
        decode_receipt_handle(text)
