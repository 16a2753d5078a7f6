"""A slave's tables: topics, groups, progress and delays as its master has them.

The log comes by itself (`client.py`); what is beside it is asked for every ten seconds, as RocketMQ's slave
does, as soon as the master is found, and when the log brings a topic that the table has not:

    21   topics            45  progress of the delay levels        28  how far the master's log goes
    201  groups            43  progress of the groups            9201  who holds which queue (ours)
    402  request modes
    25   settings, once a link: the master's role, so that the slave can tell it when the master is lost

Progress must not run ahead of the log. Had a slave the master's word that a delayed message was delivered,
or a transaction's fate noted, and not yet the record of it, and became master then, the message would be
lost. So the end of the master's log is asked for behind the progress, and the progress counts once the own
log is there.

Nor may it fall behind the log. A master that lost power may come back with less than its slave has, and its
progress is then of another log: what it does not know as delivered would be delivered again. So progress is
taken from nobody whose log ends before the own, and what was said over one link is not used over the next.

Before the groups' progress is taken over, the master is told what clients committed here while it was gone.

A slave lets go of no file of its log that its master still has: messages that wait for a time of their own
are stored again by the master before it does.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.kinds.delay import DelayedMessages
from pyromq.broker.metrics.runtime import LOG_END, LOG_START
from pyromq.broker.replication.adoption import is_lost
from pyromq.broker.replication.committed_here import Commit, CommittedHere
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import BodyError, ConnectionLost, PyroError, Refused, refusal
from pyromq.net.links import Links
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.offset_bodies import decode_delay_offsets, decode_group_offsets
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.header import Header, write_header
from pyromq.wire.headers.offset_headers import UpdateConsumerOffset

log = logging.getLogger(__name__)

#: RocketMQ's slave asks so often, and with failover there is a second to lose, not ten.
PERIOD_S: Final = 10.0
FAILOVER_PERIOD_S: Final = 1.0
_TIMEOUT_S: Final = 3.0
#: The setting that tells a master's role.
_ROLE: Final = "brokerRole"
#: How long a copy waits for the own log to get where the master's was, and how often it looks.
_REACH_S: Final = 2.0
_LOOK_S: Final = 0.02
#: How long a slave that meets a new topic waits for others before it asks.
_LEARN_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTables:
    """The tables that a slave has from its master."""

    topics: TopicTable
    groups: Groups
    delayed: DelayedMessages


@dataclass(frozen=True, slots=True)
class _Progress:
    """The consumers' progress that a master told, and the part of the log that goes with it."""

    groups: dict[str, dict[int, int]]
    levels: dict[int, int]
    #: Over which of the links to the master it was said.
    link: int
    #: Where the own log ended before the master was asked.
    since: int
    #: Where the master's log ended behind it.
    end: int


class TableCopier:
    """Copies a master's tables to a slave. `master` tells the address to ask, None while there is none.

    What was asked there is used only if it is still the master when the answer comes.
    """

    def __init__(
        self,
        tables: CopiedTables,
        *,
        store: MessageStore,
        links: Links,
        durability: Durability,
        master: Callable[[], str | None],
        on_master_role: Callable[[str], None] = lambda _role: None,
    ) -> None:
        self._tables = tables
        self._store = store
        self._links = links
        self._durability = durability
        self._master = master
        #: What clients committed here.
        self.committed_here = CommittedHere()
        #: How often all tables were copied.
        self.copies = 0
        self._note_master_role = on_master_role
        self._role_asked_over = -1
        self._waiting: _Progress | None = None
        #: How often the log's link to the master was made: another may lead to another life of it.
        self._link = 0
        self._has_locks = True
        self._has_modes = True
        self._last_error = ""
        #: What the master said last, and the own table's revision then: the same again is not read again.
        self._topics_seen: tuple[bytes, int] = (b"", -1)
        self._groups_seen: tuple[bytes, int] = (b"", -1)
        self._under_way: asyncio.Task[None] | None = None
        self._kept_from: int | None = None
        #: Topics of the log that the master was asked about: one that it deleted is in no table any more.
        self._asked_about: set[str] = set()
        self._learning: asyncio.TimerHandle | None = None
        store.may_go_before = self._may_go_before

    async def copy(self) -> None:
        """Copy now, or wait for the copy under way; what fails is logged once, and tried again next time."""
        await asyncio.shield(self._under_way or self._begin())

    def copy_soon(self) -> None:
        """Copy without waiting for it: the log is copied from the master from now on."""
        self._link += 1
        self._waiting = None
        if self._under_way is None:
            self._begin()

    def learn(self, topic: str) -> None:
        """Copy soon, for a topic that the log has and the table has not; for each topic once.

        A client that asks for its messages when the master is gone would else hear TOPIC_NOT_EXIST.
        """
        if topic not in self._asked_about and is_lost(topic, self._tables.topics):
            self._asked_about.add(topic)
            if self._learning is None:
                self._learning = asyncio.get_running_loop().call_later(_LEARN_S, self._learn)

    def _learn(self) -> None:
        self._learning = None
        if self._under_way is None:
            self._begin()
        else:
            # The topics may have been asked for before this one was made.
            self._learning = asyncio.get_running_loop().call_later(_LEARN_S, self._learn)

    async def close(self) -> None:
        """End the copy under way."""
        if self._learning is not None:
            self._learning.cancel()
        if self._under_way is not None:
            self._under_way.cancel()
            with suppress(asyncio.CancelledError):
                await self._under_way

    def _begin(self) -> "asyncio.Task[None]":
        self._under_way = asyncio.get_running_loop().create_task(self._run(), name="copy the tables")
        return self._under_way

    async def _run(self) -> None:
        try:
            address = self._master()
            if address is not None:
                await self._copy(address)
                self.copies += 1
                self._last_error = ""
        except PyroError as error:
            if str(error) != self._last_error:
                log.warning("the master's tables are not copied, it is tried again: %s", error)
            self._last_error = str(error)
        finally:
            self._under_way = None

    async def _copy(self, address: str) -> None:
        tables = self._tables
        topics = await self._ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        if self._topics_seen != (topics, tables.topics.revision):
            if tables.topics.follow(decode_topic_table(topics)):
                log.info("topics copied from %s", address)
            self._topics_seen = topics, tables.topics.revision
            self._asked_about.difference_update(tables.topics.configs)
        said = self._waiting
        if said is None:
            said = await self._ask_progress(address)
            await self._tell_commits(address, said.groups)
        groups = await self._ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        if self._groups_seen != (groups, tables.groups.table.revision):
            if tables.groups.table.follow(decode_group_table(groups)):
                log.info("groups copied from %s", address)
            self._groups_seen = groups, tables.groups.table.revision
        if self._has_locks:
            await self._copy_locks(address)
        if self._has_modes:
            await self._copy_modes(address)
        if self._role_asked_over != self._link:
            await self._ask_role(address)
        await tables.topics.save()
        await tables.groups.table.save()
        # The last, for it may wait for the log, and for a disk that is slow.
        await self._follow_progress(said)

    async def _ask_progress(self, address: str) -> _Progress:
        link, since = self._link, self._store.whole_position
        groups = decode_group_offsets(await self._ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET))
        levels = decode_delay_offsets(await self._ask(address, RequestCode.GET_ALL_DELAY_OFFSET))
        runtime = decode_key_values(await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)).table
        self._kept_from = _number(runtime, LOG_START)
        return _Progress(groups, levels, link, since, _number(runtime, LOG_END))

    async def _follow_progress(self, said: _Progress) -> None:
        """Take over what the master said, once the log is there; else look again at the next copy."""
        self._waiting = None
        if said.end < said.since:
            # The master lost what this slave has.
            return
        is_there = await self._reach(said.end)
        if said.link != self._link:
            return
        if not is_there:
            self._waiting = said
            return
        tables = self._tables
        tables.groups.offsets.follow(self._with_commits(said.groups))
        await tables.groups.offsets.save()
        await tables.delayed.take_over(said.levels, said.since, self._durability)

    async def _reach(self, end: int) -> bool:
        for _ in range(round(_REACH_S / _LOOK_S)):
            if self._store.max_position >= end:
                return True
            await asyncio.sleep(_LOOK_S)
        return False

    def _with_commits(self, groups: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
        """Return a master's progress with what it was not told of yet."""
        for commit in self.committed_here:
            offsets = groups.setdefault(commit.key, {})
            offsets[commit.queue_id] = max(commit.offset, offsets.get(commit.queue_id, -1))
        return groups

    async def _tell_commits(self, address: str, groups: dict[str, dict[int, int]]) -> None:
        for commit in self.committed_here.ahead_of(groups):
            header = UpdateConsumerOffset(
                consumer_group=commit.group,
                topic=commit.topic,
                queue_id=commit.queue_id,
                commit_offset=commit.offset,
            )
            await self._tell(address, commit, header)
            groups.setdefault(commit.key, {})[commit.queue_id] = commit.offset

    async def _tell(self, address: str, commit: Commit, header: UpdateConsumerOffset) -> None:
        try:
            await self._ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
            log.info("the master was told that group %s is at %d", commit.group, commit.offset)
        except Refused as refused:
            log.warning("the master does not take the progress of group %s: %s", commit.group, refused)
        self.committed_here.forget(commit)

    async def _copy_locks(self, address: str) -> None:
        try:
            self._tables.groups.locks.follow(await self._ask(address, RequestCode.GET_QUEUE_LOCKS))
        except Refused as refused:
            if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            # RocketMQ's locks live in memory, and are lost with it.
            self._has_locks = False

    async def _copy_modes(self, address: str) -> None:
        try:
            modes = await self._ask(address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        except Refused as refused:
            if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            # A master of 4.9 has none.
            self._has_modes = False
            return
        self._tables.groups.request_modes.follow(modes)
        await self._tables.groups.request_modes.save()

    async def _ask_role(self, address: str) -> None:
        self._role_asked_over = self._link
        try:
            settings = (await self._ask(address, RequestCode.GET_BROKER_CONFIG)).decode("utf-8", "replace")
        except Refused:
            # With access control the settings are for administrators; nothing else depends on them.
            return
        said = (line.partition("=") for line in settings.splitlines())
        for role in (value for key, _, value in said if key == _ROLE):
            self._note_master_role(role)

    async def _ask(self, address: str, code: RequestCode, header: Header | None = None) -> bytes:
        ext = None if header is None else write_header(header)
        answer = await self._links.request(address, Command(code, ext=ext), _TIMEOUT_S)
        if self._master() != address:
            raise ConnectionLost(f"{address} is not this slave's master any more")
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(answer.code, answer.remark)
        return answer.body

    def _may_go_before(self, position: int) -> int:
        return position if self._kept_from is None else min(position, self._kept_from)


def _number(table: Mapping[str, str], name: str) -> int:
    text = table.get(name, "")
    if not (text.isascii() and text.isdecimal()):
        raise BodyError(f"the master's answer to 28 has no {name}")
    return int(text)
