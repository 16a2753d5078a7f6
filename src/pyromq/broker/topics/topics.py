"""The topics of this broker: `topics.json`.

System topics are made anew at each start, as the settings say; what the file says of them holds over that,
as with RocketMQ. A change is on disk before whoever asked for it is answered, and is then told to the name
servers.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from pyromq import system_names
from pyromq.broker.json_table import JsonTable, legal
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.attributes import TOPIC_ATTRIBUTES, changed_attributes
from pyromq.clock import Clock
from pyromq.codes import Perm, ResponseCode, TopicSysFlag
from pyromq.config.choices import BrokerRole
from pyromq.config.pop_settings import POP_UNCHANGED, PopSettings
from pyromq.config.settings import BrokerSettings
from pyromq.errors import Refused, ServerFailed
from pyromq.model import TopicType
from pyromq.name_rules import WORD_CHARACTERS_MAX, why_no_stored_topic
from pyromq.store.files import Files
from pyromq.wire.bodies.table_text import TableText
from pyromq.wire.bodies.topic_bodies import (
    MESSAGE_TYPE,
    TABLE_BUCKETS,
    DataVersion,
    TopicConfig,
    TopicConfigTable,
    decode_topic_table,
    encode_topic_table,
)

SCHEDULE_QUEUE_COUNT = 18
BENCHMARK_QUEUE_COUNT = 1024
CLUSTER_QUEUE_COUNT = 16
#: Queues that RocketMQ's clients ask for when a send creates its topic (defaultTopicQueueNums).
CLIENTS_QUEUES = 4
#: 5.x's attributes of a topic are a few words.
ATTRIBUTES_CHARACTERS_MAX = 4_096


class TopicTable:
    """Topic configurations by name. `on_change` is called after each change, once it is in the table."""

    def __init__(
        self,
        path: Path,
        settings: BrokerSettings,
        clock: Clock,
        *,
        pop: PopSettings = POP_UNCHANGED,
        files: Files | None = None,
    ) -> None:
        self._settings = settings
        self._pop = pop
        self._clock = clock
        self._configs = {config.topic_name: config for config in _system_topics(settings)}
        #: All configurations by topic; not to be changed by others.
        self.configs: Mapping[str, TopicConfig] = self._configs
        self._system_names = tuple(dict.fromkeys((*system_names.SYSTEM_TOPICS, *self._configs)))
        self._version = DataVersion(timestamp=clock.now_ms())
        #: A number that each change raises; the version's may come back, with a master's table.
        self.revision = 0
        #: Whether the version is that of a file or of a master's table.
        self._is_known = False
        #: What is kept of the table's JSON, so that a change does not cost what all topics cost.
        self.text = TableText(TABLE_BUCKETS)
        self._text_of(self._configs)
        self._file = JsonTable(path, lambda: self.encode(pretty=True), files=files)
        #: Topics that changed since all was known to be on disk, with the number of the change.
        self.unsaved: dict[str, int] = {}
        #: Topics that were created and that the name servers were not told of yet.
        self._created: list[str] = []
        self.on_change: Callable[[], None] = lambda: None
        #: Called with each topic that a first send created.
        self.on_inherited: Callable[[TopicConfig], None] = lambda _: None

    def load(self) -> None:
        """Read the file over the system topics."""
        loaded = self._file.load(decode_topic_table, field="topicConfigTable")
        if loaded is not None:
            configs = self._file.sift(loaded.topic_config_table, _why_not)
            self._configs.update(configs)
            self._text_of(configs)
            self._version = loaded.data_version
            self._is_known = True

    def get(self, topic: str) -> TopicConfig | None:
        """Return a topic's configuration, or None when it does not exist here."""
        return self._configs.get(topic)

    @property
    def as_of_ms(self) -> int:
        """The time as of which the table has all topics, by the clock of their master; 0: unknown."""
        return self._version.timestamp if self._is_known else 0

    @property
    def system_names(self) -> tuple[str, ...]:
        """The topics that are the broker's own; some of them exist only when they are needed."""
        return self._system_names

    def check_not_system(self, topic: str) -> None:
        """Raise ServerFailed when the topic is the broker's own."""
        if topic in self._system_names or topic.startswith(system_names.TOPIC_PREFIX):
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"The topic[{topic}] is conflict with system topic."
            )

    @property
    def first_send_queues(self) -> int:
        """The queues that a topic gets when its first send creates it, as clients ask by default."""
        if not self._settings.auto_create_topic_enable:
            return 1
        return min(CLIENTS_QUEUES, self._settings.default_topic_queue_nums)

    def inherit(
        self, topic: str, default_topic: str, *, queue_count: int, sys_flag: int = 0
    ) -> TopicConfig | None:
        """Create a topic as its first send asks for it, or return None when that is not allowed.

        The default topic lends its permissions if they may be inherited, and at most its own queue count.
        Without `autoCreateTopicEnable`, TBW102 lends nothing, even if an older file still has it.
        """
        lender = self._configs.get(default_topic)
        if lender is None or not lender.perm & Perm.INHERIT:
            return None
        if default_topic == system_names.AUTO_CREATE and not self._settings.auto_create_topic_enable:
            return None
        count = max(min(queue_count, lender.write_queue_nums), 0)
        config = self.put(
            TopicConfig(
                topic_name=topic,
                read_queue_nums=count,
                write_queue_nums=count,
                perm=lender.perm & ~Perm.INHERIT,
                topic_filter_type=lender.topic_filter_type,
                topic_sys_flag=sys_flag,
            )
        )
        self.on_inherited(config)
        return config

    def ensure(self, topic: str, *, queue_count: int, sys_flag: int = 0) -> TopicConfig:
        """Return a readable and writable topic that the broker itself needs, created if it is missing."""
        return self._configs.get(topic) or self.put(
            TopicConfig(
                topic_name=topic,
                read_queue_nums=queue_count,
                write_queue_nums=queue_count,
                perm=Perm.READ | Perm.WRITE,
                topic_sys_flag=sys_flag,
            )
        )

    def altered(self, config: TopicConfig) -> TopicConfig:
        """Return a topic as an operator wants it: its attributes are changes of those that it has.

        Raises ServerFailed or Refused when one of the changes may not be made; nothing changes here.
        """
        changes = config.attributes or {}
        if changes.get(f"+{MESSAGE_TYPE}") == TopicType.MIXED and not self._pop.enable_mixed_message_type:
            raise Refused(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
        known = self._configs.get(config.topic_name)
        current = None if known is None else known.attributes
        attributes = changed_attributes(TOPIC_ATTRIBUTES, current, changes, is_new=known is None)
        return msgspec.structs.replace(config, attributes=attributes)

    def put(self, config: TopicConfig) -> TopicConfig:
        """Create or replace a topic; `save` says when it is on disk.

        Raises ServerFailed when no topic may have that name, or another of its texts is too long.
        """
        topic_names.check_inner_name(config.topic_name)
        fault = _why_too_large(config)
        if fault is not None:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"topic {config.topic_name}: {fault}")
        if self._file.is_saved:
            self.unsaved.clear()
        if config.topic_name not in self._configs:
            self._created.append(config.topic_name)
        self._configs[config.topic_name] = config
        self.text.changed(config.topic_name)
        self.unsaved[config.topic_name] = self._next_version()
        self.on_change()
        return config

    def take_created(self) -> list[str]:
        """Return the topics that were created since this was last asked for."""
        created, self._created = self._created, []
        return created

    def remove(self, topic: str) -> bool:
        """Forget a topic, and return whether there was one; `save` says when the disk knows."""
        if self._configs.pop(topic, None) is None:
            return False
        self.text.removed(topic)
        self.unsaved.pop(topic, None)
        self._next_version()
        self.on_change()
        return True

    def touch(self) -> None:
        """Raise the version, so that the name servers take in what is said of the topics."""
        self._next_version()

    def add_system_topics(self) -> None:
        """Add those that the settings want by now; none goes before the next start."""
        for config in _system_topics(self._settings):
            if config.topic_name not in self._configs:
                self.put(config)

    def adopt(self, config: TopicConfig) -> None:
        """Add a topic while nothing runs yet; it is on disk after the next `save`."""
        self._configs[config.topic_name] = config
        self.text.changed(config.topic_name)
        self._version = self._version.bumped(self._clock.now_ms())
        self.revision += 1
        self._file.changed_unsaved()

    def set_ordered(self, ordered: Iterable[str]) -> None:
        """Mark exactly these topics as ordered; the name servers' table of ordered topics says which."""
        names = frozenset(ordered)
        wrong = [config for config in self._configs.values() if config.order != (config.topic_name in names)]
        for config in wrong:
            self._configs[config.topic_name] = msgspec.structs.replace(config, order=not config.order)
            self.text.changed(config.topic_name)
        if wrong:
            self._next_version()

    def follow(self, master: TopicConfigTable) -> bool:
        """Be a master's table from now on, version and all, and return whether it was another.

        System topics that the master does not have stay. `save` says when it is on disk.
        """
        if master.data_version == self._version:
            return False
        system = {name: self._configs[name] for name in self._system_names if name in self._configs}
        theirs = system | legal(master.topic_config_table, _why_not)
        if self._configs.keys() - theirs.keys():
            # Names do not leave a text that is kept.
            self.text = TableText(TABLE_BUCKETS)
            changed = list(theirs)
        else:
            changed = [name for name, config in theirs.items() if self._configs.get(name) != config]
        self._configs.clear()
        self._configs.update(theirs)
        self._text_of(changed)
        self._version = master.data_version
        self._is_known = True
        self.revision += 1
        self._file.changed()
        return True

    def has_saved(self, *topics: str) -> bool:
        """Return whether these topics are on disk as they are here; others may not be."""
        if self._file.is_saved:
            self.unsaved.clear()
            return True
        return all(self._file.has_saved(self.unsaved.get(topic, 0)) for topic in topics)

    async def save(self) -> None:
        """Return when all changes are on disk; raise StoreError when they cannot be written."""
        await self._file.save()

    def table(self) -> TopicConfigTable:
        """Return all topics, with the version that each change raises."""
        return TopicConfigTable(topic_config_table=self._configs, data_version=self._version)

    def encode(self, *, pretty: bool = False) -> bytes:
        """Return the table as RocketMQ writes it."""
        return encode_topic_table(self.table(), pretty=pretty, text=self.text)

    def _text_of(self, names: Iterable[str]) -> None:
        for name in names:
            self.text.changed(name)

    def _next_version(self) -> int:
        if self._settings.broker_role != BrokerRole.SLAVE:
            # A slave's table has the version of its master's, whatever it adds for its own clients.
            self._version = self._version.bumped(self._clock.now_ms())
        self.revision += 1
        return self._file.changed()


def unit_flag(topic: str, *, is_unit: bool) -> int:
    """Return the sysFlag of a topic that a producer in unit mode creates by sending."""
    if not is_unit:
        return 0
    return TopicSysFlag.UNIT_SUB if topic.startswith(topic_names.RETRY_PREFIX) else TopicSysFlag.UNIT


def _system_topics(settings: BrokerSettings) -> Iterable[TopicConfig]:
    def topic(name: str, queue_count: int, perm: int = Perm.READ | Perm.WRITE) -> TopicConfig:
        return TopicConfig(
            topic_name=name, read_queue_nums=queue_count, write_queue_nums=queue_count, perm=perm
        )

    lending = Perm.INHERIT | Perm.READ | Perm.WRITE
    yield topic(system_names.SELF_TEST, 1)
    if settings.auto_create_topic_enable:
        yield topic(system_names.AUTO_CREATE, settings.default_topic_queue_nums, lending)
    yield topic(system_names.BENCHMARK, BENCHMARK_QUEUE_COUNT)
    yield topic(
        settings.broker_cluster_name,
        CLUSTER_QUEUE_COUNT,
        lending if settings.cluster_topic_enable else Perm.INHERIT,
    )
    yield topic(settings.broker_name, 1, lending if settings.broker_topic_enable else Perm.INHERIT)
    yield topic(system_names.OFFSET_MOVED_EVENT, 1)
    yield topic(system_names.SCHEDULE, SCHEDULE_QUEUE_COUNT)
    if settings.trace_topic_enable:
        yield topic(settings.msg_trace_topic_name, 1)
    yield topic(system_names.reply_topic(settings.broker_cluster_name), 1)


def _why_not(name: str, config: TopicConfig) -> str | None:
    """Return why a table may not have a topic."""
    return why_no_stored_topic(name) or why_no_stored_topic(config.topic_name) or _why_too_large(config)


def _why_too_large(config: TopicConfig) -> str | None:
    """Return which text of a topic is too long for a table that is registered and answered as a whole."""
    if len(config.topic_filter_type) > WORD_CHARACTERS_MAX:
        return f"its topicFilterType has {len(config.topic_filter_type)} characters"
    attributes = config.attributes or {}
    size = sum(len(name) + len(value) for name, value in attributes.items())
    if size > ATTRIBUTES_CHARACTERS_MAX:
        return f"its attributes have {size} characters, and {ATTRIBUTES_CHARACTERS_MAX} are the limit"
    return None
