"""The consumer groups of this broker: `subscriptionGroup.json`."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from pyromq.broker.json_table import JsonTable, legal
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.attributes import GROUP_ATTRIBUTES, changed_attributes
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ServerFailed
from pyromq.name_rules import why_no_stored_group, why_no_stored_topic
from pyromq.store.files import Files
from pyromq.system_names import GROUP_PREFIX
from pyromq.wire.bodies.group_bodies import (
    TABLE_BUCKETS,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    decode_group_table,
    encode_group,
    encode_group_table,
)
from pyromq.wire.bodies.table_text import TableText
from pyromq.wire.bodies.topic_bodies import DataVersion

#: The bit of reading in 5.x's table of what is forbidden (PermName.java, INDEX_PERM_READ).
_READ_BIT = 1 << 2
_NOTHING: Mapping[str, int] = {}
#: A group is a few numbers, and at most some subscriptions.
CONFIG_BYTES_MAX = 16_384
_SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)


class GroupTable:
    """Group configurations by name."""

    def __init__(
        self, path: Path, settings: BrokerSettings, clock: Clock, *, files: Files | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._configs = {name: SubscriptionGroupConfig(group_name=name) for name in _SYSTEM_GROUPS}
        #: What groups may not do with topics, by group and topic; 5.x's table of the same file.
        self._forbidden: dict[str, dict[str, int]] = {}
        self._version = DataVersion(timestamp=clock.now_ms())
        #: A number that each change raises; the version's may come back, with a master's table.
        self.revision = 0
        self._text = TableText(TABLE_BUCKETS)
        for name in self._configs:
            self._text.changed(name)
        self._file = JsonTable(path, lambda: self.encode(pretty=True), files=files)

    def load(self) -> None:
        """Read the file over the system groups."""
        loaded = self._file.load(decode_group_table, field="subscriptionGroupTable")
        if loaded is not None:
            configs = self._file.sift(loaded.subscription_group_table, _why_not)
            self._configs.update(configs)
            for name in configs:
                self._text.changed(name)
            self._forbidden = self._file.sift(loaded.forbidden_table, _why_not_forbidden)
            self._version = loaded.data_version

    @property
    def configs(self) -> Mapping[str, SubscriptionGroupConfig]:
        """All configurations by group; not to be changed."""
        return self._configs

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return a group's configuration, created if groups come into being by their first use; else None."""
        config = self._configs.get(group)
        if config is not None:
            return config
        if self._settings.auto_create_subscription_group or group.startswith(GROUP_PREFIX):
            return self.put(SubscriptionGroupConfig(group_name=group))
        return None

    def altered(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Return a group as an operator wants it: its attributes are changes of those that it has.

        Raises ServerFailed when one of the changes may not be made; nothing changes here.
        """
        known = self._configs.get(config.group_name)
        current = None if known is None else known.attributes
        attributes = changed_attributes(GROUP_ATTRIBUTES, current, config.attributes, is_new=known is None)
        return replace(config, attributes=attributes)

    def put(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Create or replace a group; `save` says when it is on disk.

        Raises ServerFailed when no group may have that name, or what it says is too long.
        """
        topic_names.check_group(config.group_name)
        fault = _why_too_large(config)
        if fault is not None:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"group {config.group_name}: {fault}")
        self._configs[config.group_name] = config
        self._text.changed(config.group_name)
        self._changed()
        return config

    def remove(self, group: str) -> bool:
        """Forget a group, and what it may not read; return whether there was one."""
        was_there = self._configs.pop(group, None) is not None
        if was_there:
            self._text.removed(group)
        if was_there | (self._forbidden.pop(group, None) is not None):
            self._changed()
        return was_there

    def may_read(self, group: str, topic: str) -> bool:
        """Return whether nobody forbade the group to read the topic."""
        return not self._forbidden.get(group, _NOTHING).get(topic, 0) & _READ_BIT

    def forbid(self, group: str, topic: str, *, readable: bool) -> None:
        """Say whether a group may read a topic; `save` says when it is on disk."""
        if self.may_read(group, topic) == readable:
            return
        flags = self._forbidden.setdefault(group, {})
        flags[topic] = flags.get(topic, 0) ^ _READ_BIT
        if not flags[topic]:
            del flags[topic]
        if not flags:
            del self._forbidden[group]
        self._changed()

    def _changed(self) -> None:
        if self._settings.broker_role != BrokerRole.SLAVE:
            # A slave's table has the version of its master's, whatever it adds for its own clients.
            self._version = self._version.bumped(self._clock.now_ms())
        self.revision += 1
        self._file.changed()

    def follow(self, master: SubscriptionGroupTable) -> bool:
        """Be a master's table from now on, version and all, and return whether it was another.

        System groups that the master does not have stay. `save` says when it is on disk.
        """
        if master.data_version == self._version:
            return False
        system = {name: self._configs[name] for name in _SYSTEM_GROUPS}
        self._configs = system | legal(master.subscription_group_table, _why_not)
        self._forbidden = legal(master.forbidden_table, _why_not_forbidden)
        self._text = TableText(TABLE_BUCKETS)
        for name in self._configs:
            self._text.changed(name)
        self._version = master.data_version
        self.revision += 1
        self._file.changed()
        return True

    async def save(self) -> None:
        """Return when all changes are on disk; raise StoreError when they cannot be written."""
        await self._file.save()

    def encode(self, *, pretty: bool = False) -> bytes:
        """Return the table as RocketMQ writes it."""
        table = SubscriptionGroupTable(
            subscription_group_table=self._configs,
            data_version=self._version,
            forbidden_table=self._forbidden,
        )
        return encode_group_table(table, pretty=pretty, text=self._text)


def _why_not(name: str, config: SubscriptionGroupConfig) -> str | None:
    """Return why a table may not have a group."""
    return why_no_stored_group(name) or why_no_stored_group(config.group_name) or _why_too_large(config)


def _why_too_large(config: SubscriptionGroupConfig) -> str | None:
    """Return what of a group is too long for a table that is told and answered as a whole."""
    if config.attributes is None and config.subscription_data_set is None:
        # All else has its limit in its type.
        return None
    size = len(encode_group(config))
    return None if size <= CONFIG_BYTES_MAX else f"it has {size} bytes, and {CONFIG_BYTES_MAX} are the limit"


def _why_not_forbidden(name: str, topics: Mapping[str, int]) -> str | None:
    """Return why a table may not say of a group what it may not read."""
    faults = (fault for topic in topics if (fault := why_no_stored_topic(topic)) is not None)
    return why_no_stored_group(name) or next(faults, None)
