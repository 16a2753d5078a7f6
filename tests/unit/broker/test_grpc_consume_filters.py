"""The filter expressions of receives."""

from pathlib import Path

import pytest

from pyromq.broker.delivery.sql_filters import FilterTable
from pyromq.broker.grpc.consuming.consume_filters import pop_filter
from pyromq.broker.pop.pop_asks import PopFilter
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ServerFailed
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire import properties as names
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import Record, encode_record

TAG, SQL = 1, 2


@pytest.fixture
def filters(tmp_path: Path) -> FilterTable:
    return FilterTable(tmp_path / "f.json", BrokerSettings(enable_property_filter=True), ManualClock())


def wants(wanted: PopFilter, **properties: str) -> bool:
    """Whether a message passes both tests, as a queue's entry and as a record."""
    record = encode_record(Record("orders", b"", properties=names.encode(properties)))
    code = java_hash(properties["TAGS"]) if "TAGS" in properties else 0
    passes_code = wanted.tags is None or wanted.tags(code)
    return passes_code and (wanted.matches is None or wanted.matches(memoryview(record)))


@pytest.mark.parametrize("expression", ["", "*"])
@pytest.mark.parametrize("kind", [0, TAG])
def test_everything_is_wanted_without_a_test(filters: FilterTable, kind: int, expression: str) -> None:
    assert pop_filter(filters, kind, expression) == PopFilter()


def test_tags_are_trimmed_and_compared_as_text(filters: FilterTable) -> None:
    wanted = pop_filter(filters, TAG, " Aa || green ")

    assert wants(wanted, TAGS="Aa")
    assert wants(wanted, TAGS="green", KEYS="k")
    assert not wants(wanted, TAGS="blue")
    assert not wants(wanted)
    # Their hashes are the same in Java.
    assert java_hash("Aa") == java_hash("BB")
    assert not wants(wanted, TAGS="BB")


def test_sql_looks_at_properties(filters: FilterTable) -> None:
    wanted = pop_filter(filters, SQL, "size > 3 AND colour = 'blue'")

    assert wants(wanted, size="4", colour="blue")
    assert not wants(wanted, size="3", colour="blue")


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        (TAG, "||"),
        (TAG, " "),
        (TAG, " || || "),
        (SQL, ""),
        (SQL, "  "),
        (SQL, "size >"),
        (SQL, "a = 1 b = 2"),
        (3, "*"),
        (-1, ""),
        (TAG, "t" * 32_769),
    ],
)
def test_an_expression_that_is_not_understood_is_illegal(
    filters: FilterTable, kind: int, expression: str
) -> None:
    with pytest.raises(GrpcRefused, match="filter expression is not understood") as refused:
        pop_filter(filters, kind, expression)
    assert refused.value.code == GrpcCode.ILLEGAL_FILTER_EXPRESSION
    assert len(refused.value.text) < 500


def test_sql_needs_the_setting(tmp_path: Path) -> None:
    filters = FilterTable(tmp_path / "f.json", BrokerSettings(), ManualClock())

    with pytest.raises(ServerFailed, match="does not support consumer to filter message by SQL92"):
        pop_filter(filters, SQL, "a = 1")


def test_filters_that_want_the_same_say_the_same(filters: FilterTable) -> None:
    expressions = {
        pop_filter(filters, *each).expression for each in [(0, "a"), (TAG, "a"), (SQL, "a = 1"), (0, "*")]
    }

    assert expressions == {"TAG a", "SQL92 a = 1", ""}
