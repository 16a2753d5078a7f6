"""The filter expression of a receive: which messages it wants, by their tags or by SQL."""

from collections.abc import Callable
from typing import Final

from pyromq.broker.delivery.sql_filters import SQL92, FilterTable, tag_test
from pyromq.broker.pop.pop_asks import EVERYTHING, PopFilter
from pyromq.codes import ResponseCode
from pyromq.errors import CorruptRecord, Refused
from pyromq.filter.tags import parse_tags, wants_all
from pyromq.name_rules import EXPRESSION_CHARACTERS_MAX, shortened
from pyromq.text_cache import text_cache
from pyromq.wire import properties as names
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.proto_numbers import FilterType
from pyromq.wire.record import look_at_record

_find_tag = names.finder(names.TAGS.encode())
#: The characters of the expressions whose tests are kept.
_KEPT_CHARACTERS: Final = 512 * 1024


def pop_filter(filters: FilterTable, filter_type: int, expression: str) -> PopFilter:
    """Return which messages an expression wants; raise GrpcRefused when it cannot be understood."""
    if len(expression) > EXPRESSION_CHARACTERS_MAX:
        raise _illegal(f"it has {len(expression)} characters, and {EXPRESSION_CHARACTERS_MAX} are the limit")
    if filter_type == FilterType.SQL:
        return PopFilter(matches=_sql_test(filters, expression), expression=f"SQL92 {expression}")
    if filter_type not in (FilterType.TAG, FilterType.UNSPECIFIED):
        raise _illegal(f"{filter_type} is no type of a filter; there are TAG (1) and SQL (2)")
    if wants_all(expression):
        return EVERYTHING
    # A queue's entries have the hash of the tag only, and another tag may have the same.
    return PopFilter(tag_test(expression), _tag_text_test(expression), f"TAG {expression}")


def _sql_test(filters: FilterTable, expression: str) -> Callable[[memoryview], bool]:
    if not expression.strip():
        raise _illegal("an SQL filter needs an expression")
    filters.check(SQL92)
    try:
        return filters.test(expression)
    except Refused as refusal:
        if refusal.code != ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            raise
        raise _illegal(refusal.remark) from refusal


@text_cache(_KEPT_CHARACTERS)
def _tag_text_test(expression: str) -> Callable[[memoryview], bool]:
    tags = frozenset(tag.encode("utf-8", "replace") for tag in parse_tags(expression))
    if not tags:
        raise _illegal(f"{shortened(expression)} names no tag; * is all messages")

    def matches(record: memoryview) -> bool:
        try:
            *_, properties_at, end = look_at_record(record, check_crc=False)
        except CorruptRecord:
            # It is shown for what it is where it is delivered.
            return True
        return _find_tag(bytes(record[properties_at:end])) in tags

    return matches


def _illegal(cause: str) -> GrpcRefused:
    return GrpcRefused(
        GrpcCode.ILLEGAL_FILTER_EXPRESSION, f"the filter expression is not understood: {cause}"
    )
