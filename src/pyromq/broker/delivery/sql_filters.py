"""The SQL filters of subscriptions: `consumerFilter.json`.

A group's filter for a topic is that of the newest subscription that a heartbeat brought. It outlives the
group's members by a day: a message that comes back to the group meanwhile still finds it, and so does the
next start of the broker. Subscriptions by tags need no table.

Unless filters are enabled the table is empty and its file is left as it is; one is written where there is
none, because RocketMQ's broker and its tools expect it.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.broker.json_table import JsonTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import BodyError, CorruptRecord, FilterError, Refused, ServerFailed
from pyromq.filter.tags import parse_tags, wants_all
from pyromq.name_rules import shortened, why_no_stored_group, why_no_stored_topic
from pyromq.store.files import Files, SystemFiles
from pyromq.text_cache import text_cache
from pyromq.wire import properties as names
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.java_hash import java_hash
from pyromq.wire.java_json import dumps, loads
from pyromq.wire.record import read_properties

if TYPE_CHECKING:
    from pyromq.filter.sql_filter import SqlFilter

log = logging.getLogger(__name__)

TAG: Final = "TAG"
SQL92: Final = "SQL92"
KEPT_AFTER_DEATH_MS: Final = 24 * 3_600_000
#: So much of them is kept: clients come and go, and leave what they like.
DEAD_CHARACTERS_MAX: Final = 4 * 1024 * 1024

Matches = Callable[[bytes | memoryview], bool]


class GroupFilter(msgspec.Struct, kw_only=True, rename="camel"):
    """A group's SQL filter for a topic; `dead_time` is since when no consumer has it, 0 if one has."""

    topic: str
    consumer_group: str
    expression: str
    expression_type: str = SQL92
    client_version: int = 0
    born_time: int = 0
    dead_time: int = 0

    @property
    def compiled(self) -> "SqlFilter":
        """The test that the expression is; raises FilterError for one that another broker has let through."""
        return _compile(self.expression)


class FilterTable:
    """Filters by topic and group."""

    def __init__(
        self, path: Path, settings: BrokerSettings, clock: Clock, *, files: Files | None = None
    ) -> None:
        self._path = path
        self._settings = settings
        self._clock = clock
        self._files = files or SystemFiles()
        self._filters: dict[tuple[str, str], GroupFilter] = {}
        self._file = JsonTable(path, self._encode, files=self._files)

    def load(self) -> None:
        """Read the file, if filters are enabled; nobody is there yet to want any of them."""
        if not self._settings.enable_property_filter:
            return
        # Only now, as in `_compile`: the first subscription does not wait for the grammar.
        from pyromq.filter import sql_filter

        sql_filter.prepare()
        now_ms = self._clock.now_ms()
        for each in self._file.load(_decode, field="filterDataByTopic") or ():
            each.dead_time = each.dead_time or now_ms
            self._filters[each.topic, each.consumer_group] = each
        self._bury_oldest()

    async def save(self) -> None:
        """Write what changed, or the file if there is none."""
        if not self._files.exists(self._path):
            self._file.changed_unsaved()
        await self._file.save()

    def get(self, topic: str, group: str) -> GroupFilter | None:
        """Return a group's filter for a topic, None if it has none."""
        return self._filters.get((topic, group))

    def register(self, group: str, subscriptions: Iterable[Subscription]) -> None:
        """Take the filters over that a member's heartbeat brought; an older one than is known is ignored."""
        if not self._settings.enable_property_filter:
            return
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if subscription.expression_type == SQL92 and subscription.sub_string:
                self._register(group, subscription)
        self._let_die(lambda each: each.consumer_group == group and each.topic not in topics)

    def group_left(self, group: str) -> None:
        """Note that a group has no member any more."""
        self._let_die(lambda each: each.consumer_group == group)

    def forget(self, group: str) -> None:
        """Take over the group's next filters, even if they are older than those that are known."""
        for key in [key for key in self._filters if key[1] == group]:
            del self._filters[key]
            self._file.changed()

    def check(self, expression_type: str | None) -> bool:
        """Return whether an expression is SQL and not tags; raise Refused if it may be neither here."""
        if expression_type in (None, "", TAG):
            return False
        if not self._settings.enable_property_filter or expression_type != SQL92:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {expression_type}",
            )
        return True

    def test(self, expression: str | None) -> Matches:
        """Return the test of records that an expression is; raise Refused with the place and the cause."""
        return record_test(self._compiled(expression))

    def group_test(self, topic: str, group: str, *, version: int, expression: str) -> Matches:
        """Return the test of records by a group's filter; raise Refused if it has none, or only older ones.

        `expression` is what the group subscribed with; it says why there is no filter.
        """
        known = self.get(topic, group)
        if known is None:
            try:
                _compile(expression)
            except FilterError as error:
                cause = f" {error}"
            else:
                cause = ""
            raise Refused(
                ResponseCode.FILTER_DATA_NOT_EXIST,
                f"The broker's consumer filter data is not exist!Your expression may be wrong!{cause}",
            )
        if known.client_version < version:
            raise Refused(
                ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest"
            )
        return record_test(self._compiled(known.expression))

    def retry_test(self, group: str) -> Matches | None:
        """Return the test of records that come back to a group, by its filter for the topic they came from.

        A record that came from a topic without a filter passes. None: all of them do.
        """
        if not (self._settings.enable_property_filter and self._settings.filter_support_retry):
            return None

        def matches(record: bytes | memoryview) -> bool:
            properties = _properties_of(record)
            known = self.get(properties.get(names.RETRY_TOPIC, ""), group)
            return known is None or known.compiled.matches(properties)

        return matches

    def _compiled(self, expression: str | None) -> "SqlFilter":
        try:
            return _compile(expression or "")
        except FilterError as error:
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error

    def _register(self, group: str, subscription: Subscription) -> None:
        key = subscription.topic, group
        known = self._filters.get(key)
        version = subscription.sub_version
        if known is not None and version <= known.client_version:
            if version == known.client_version and known.dead_time:
                known.dead_time = 0
                self._file.changed()
            return
        try:
            _compile(subscription.sub_string)
        except FilterError as error:
            log.warning("group %s, topic %s: %s", group, subscription.topic, error)
            # The members are told when they pull; another filter than they want would hide it.
            if self._filters.pop(key, None) is not None:
                self._file.changed()
            return
        is_same = known is not None and known.expression == subscription.sub_string
        self._filters[key] = GroupFilter(
            topic=subscription.topic,
            consumer_group=group,
            expression=subscription.sub_string,
            client_version=version,
            born_time=known.born_time if known is not None and is_same else self._clock.now_ms(),
        )
        self._file.changed()

    def _let_die(self, is_unwanted: Callable[[GroupFilter], bool]) -> None:
        died = [each for each in self._filters.values() if not each.dead_time and is_unwanted(each)]
        for each in died:
            each.dead_time = self._clock.now_ms()
        if died:
            # The next start takes everybody for gone anyway.
            self._file.changed_unsaved()
            self._bury_oldest()

    def _bury_oldest(self) -> None:
        """Forget the filters that nobody has wanted for longest, when they take too much room together."""
        dead = sorted((each for each in self._filters.values() if each.dead_time), key=_dead_since)
        left = sum(map(_characters_of, dead))
        for each in dead:
            if left <= DEAD_CHARACTERS_MAX:
                return
            left -= _characters_of(each)
            del self._filters[each.topic, each.consumer_group]
            self._file.changed_unsaved()

    def _encode(self) -> bytes:
        now_ms = self._clock.now_ms()
        topics: dict[str, dict[str, Any]] = {}
        for key, each in list(self._filters.items()):
            if each.dead_time and now_ms - each.dead_time >= KEPT_AFTER_DEATH_MS:
                del self._filters[key]
                continue
            table = topics.setdefault(each.topic, {"groupFilterData": {}, "topic": each.topic})
            fields = msgspec.to_builtins(each)
            table["groupFilterData"][each.consumer_group] = {name: fields[name] for name in sorted(fields)}
        return dumps({"filterDataByTopic": topics}, pretty=True)


@text_cache(512 * 1024)
def _code_test(expression: str) -> Callable[[int], bool] | None:
    if wants_all(expression):
        return None
    return frozenset(java_hash(tag) for tag in parse_tags(expression)).__contains__


def tag_test(expression: str | None) -> Callable[[int], bool] | None:
    """Return the test for the tag code of a queue entry, or None when every entry passes.

    A queue entry holds only the hash of a message's tag: a rare stranger with the same hash passes too, and
    the consumer sorts it out.
    """
    return None if expression is None else _code_test(expression)


def forget_expressions(subscriptions: Iterable[Subscription]) -> None:
    """Let go what was remembered of subscriptions that nobody has any more."""
    for subscription in subscriptions:
        _code_test.discard(subscription.sub_string)
        if subscription.expression_type == SQL92:
            # Only now, as in `_compile`.
            from pyromq.filter.sql_filter import compile_sql

            compile_sql.discard(subscription.sub_string)


def _compile(expression: str) -> "SqlFilter":
    """Return the filter that an expression is; raise FilterError with the place and the cause."""
    # Only now: SQL is off (enablePropertyFilter) at most brokers, and this takes a third of a megabyte.
    from pyromq.filter.sql_filter import compile_sql

    return compile_sql(expression)


def record_test(compiled: "SqlFilter") -> Matches:
    """Return the test of records that a filter of properties is."""
    wants = compiled.matches
    return lambda record: wants(_properties_of(record))


def _dead_since(each: GroupFilter) -> int:
    return each.dead_time


def _characters_of(each: GroupFilter) -> int:
    return len(each.topic) + len(each.consumer_group) + len(each.expression)


def _properties_of(record: bytes | memoryview) -> dict[str, str]:
    try:
        return names.decode(read_properties(record))
    except CorruptRecord as error:
        # The store serves none that it found damaged; one that is so now must not stop the others.
        log.warning("a message is filtered as if it had no properties: %s", error)
        return {}


def _decode(data: bytes) -> list[GroupFilter]:
    try:
        topics = loads(data)["filterDataByTopic"]
        entries = [entry for topic in topics.values() for entry in topic["groupFilterData"].values()]
        return [each for each in msgspec.convert(entries, list[GroupFilter]) if _is_good(each)]
    except (msgspec.ValidationError, AttributeError, TypeError, KeyError) as error:
        raise BodyError(f"it is no table of filters: {error}") from error


def _is_good(each: GroupFilter) -> bool:
    fault = why_no_stored_topic(each.topic) or why_no_stored_group(each.consumer_group)
    if fault is not None:
        names = shortened(each.consumer_group), shortened(each.topic)
        log.warning("the filter of group %s for topic %s is left out: %s", *names, fault)
        return False
    try:
        _compile(each.expression)
    except FilterError as error:
        log.warning("the filter of group %s for topic %s: %s", each.consumer_group, each.topic, error)
        return False
    return True
