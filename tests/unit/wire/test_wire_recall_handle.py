import base64

import pytest

from pyromq.errors import HeaderError
from pyromq.wire.recall_handle import RecallHandle, decode_recall_handle

HANDLE = RecallHandle("orders", "broker-a", 1_794_800_000_000, "7F00000100010CA5D2F80000002A0001")
#: By RecallMessageHandle.HandleV1.buildHandle of rocketmq-common 5.5.0.
OF_JAVA = "djEgb3JkZXJzIGJyb2tlci1hIDE3OTQ4MDAwMDAwMDAgN0YwMDAwMDEwMDAxMENBNUQyRjgwMDAwMDAyQTAwMDE="


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def test_a_handle_is_what_java_makes_of_it() -> None:
    assert HANDLE.encode() == OF_JAVA
    assert decode_recall_handle(OF_JAVA) == HANDLE


def test_a_handle_without_its_padding_is_read_as_java_reads_it() -> None:
    assert decode_recall_handle(OF_JAVA.rstrip("=")) == HANDLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no handle!",
        "é",
        "A",
        encoded("v2 t b 1 id"),
        encoded("v1 t b 1"),
        encoded("v1 t b soon id"),
        base64.b64encode(b"v1 \xff\xfe b 1 id").decode(),
        "7F00000100010CA5D2F80000002A0001",
    ],
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="recall handle is invalid"):
        decode_recall_handle(text)
