"""Tells the name servers what is here.

Every name server is told at once, in parallel: at the start, after a topic changed, and every half minute;
one that is down holds up no other. One that is no name server of ours any more is told that the broker goes,
and is forgotten. Changes that come while a registration is under way share the next one.
A registration carries all topics, so a burst of new ones must not be as many registrations: after one that
nobody awaits there is a pause in proportion to what it took. The answer lists the ordered topics.

Topics that are too many for a frame are registered compressed, as with `compressedRegister=true`: a broker
that could not register would be gone for all clients.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Set
from contextlib import suppress

import msgspec

from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.registration_targets import RegistrationTargets
from pyromq.broker.replication.standing import Leader
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Perm, RequestCode, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import PyroError, refusal
from pyromq.net.links import Links
from pyromq.wire.bodies.registration_bodies import (
    RegisterBrokerBody,
    body_crc32,
    decode_key_values,
    encode_register_broker,
)
from pyromq.wire.bodies.topic_bodies import TopicConfigTable
from pyromq.wire.command import FRAME_BYTES_MAX, Command
from pyromq.wire.header import read_header, write_header
from pyromq.wire.headers.namesrv_headers import RegisterBroker, RegisterBrokerAnswer, UnregisterBroker

log = logging.getLogger(__name__)

#: The first time after the start is early: a name server may have started just after us.
FIRST_PERIOD_MS = 10_000
PERIOD_MS_MIN = 10_000
PERIOD_MS_MAX = 60_000
UNREGISTER_S_MAX = 3.0
#: The pause before the next registration that nobody awaits, in times that the last one took; and its limit.
PAUSE_FACTOR = 9
#: A frame has 16 MiB; a larger body is compressed, whatever the settings say.
PLAIN_BYTES_MAX = FRAME_BYTES_MAX - 64 * 1024
PAUSE_S_MAX = 1.0


class Registration:
    """Keeps this broker known to its name servers."""

    def __init__(
        self,
        links: Links,
        topics: TopicTable,
        settings: BrokerSettings,
        *,
        name_servers: RegistrationTargets,
        address: str,
        ha_address: str,
        lease: Lease,
    ) -> None:
        self._links = links
        self._topics = topics
        self._settings = settings
        self._address = address
        self._ha_address = ha_address
        self._lease = lease
        #: How many name servers took the last registration.
        self._known_to = 0
        #: Where a slave's master is, as the name servers said last.
        self.leader: Leader | None = None
        self._name_servers = name_servers
        #: Whom a registration was sent to, and who was not told yet that the broker goes.
        self._told: set[str] = set()
        #: Whether all topics as JSON are too large for a frame; told when it changes.
        self._is_large = False
        #: Called with the topics that were created, once a name server knows them.
        self.on_new_topics: Callable[[list[str]], None] = lambda _: None
        self._new_topics: list[str] = []
        self._wanted = 0
        self._done = 0
        #: Up to which number somebody waits, and whom it wakes from a pause.
        self._awaited = 0
        self._hurry = asyncio.Event()
        self._under_way: asyncio.Task[None] | None = None

    @property
    def period_ms(self) -> int:
        """Milliseconds between registrations."""
        return min(max(self._settings.register_name_server_period, PERIOD_MS_MIN), PERIOD_MS_MAX)

    @property
    def why_unknown(self) -> str | None:
        """The reason why clients do not find this broker, None while a name server knows it."""
        if self._known_to:
            return None
        asked = self._name_servers.addresses
        if not asked:
            return "it has no name server (namesrvAddr), so clients cannot find it"
        return f"no name server took its last registration: {', '.join(asked)}"

    def register_soon(self) -> None:
        """Register without waiting for it; failures are logged and mended by the next time."""
        self._wanted += 1
        if self._under_way is None:
            self._begin()

    async def register(self) -> None:
        """Return when every name server knows the topics as they are now, or did not answer in time."""
        self._wanted += 1
        wanted = self._awaited = self._wanted
        self._hurry.set()
        while self._done < wanted:
            # Others may wait for the same registration: it must survive the one who is cancelled.
            await asyncio.shield(self._under_way or self._begin())

    async def unregister(self) -> None:
        """Tell every name server that this broker goes."""
        if self._under_way is not None:
            self._awaited = self._wanted
            self._hurry.set()
            await asyncio.wait({self._under_way})
        await self._leave({*self._told, *self._name_servers.addresses})

    async def _leave(self, addresses: Iterable[str]) -> None:
        """Tell name servers that this broker goes; who does not answer will miss it soon."""
        settings = self._settings
        header = UnregisterBroker(
            broker_name=settings.broker_name,
            broker_addr=self._address,
            cluster_name=settings.broker_cluster_name,
            broker_id=settings.broker_id,
        )
        await self._tell_all(
            addresses,
            lambda: Command(RequestCode.UNREGISTER_BROKER, ext=write_header(header)),
            UNREGISTER_S_MAX,
        )

    async def _forget(self, addresses: Set[str]) -> None:
        """Leave name servers that are none of ours any more."""
        if not addresses:
            return
        self._told -= addresses
        log.info("leaving the name servers %s", ", ".join(sorted(addresses)))
        await self._leave(addresses)
        for address in addresses - set(self._name_servers.addresses):
            self._links.drop(address)

    def _begin(self) -> "asyncio.Task[None]":
        self._under_way = asyncio.get_running_loop().create_task(self._run_once(), name="register")
        return self._under_way

    async def _run_once(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._done < self._wanted:
                doing, began_at = self._wanted, loop.time()
                await self._register_once()
                self._done = doing
                if self._awaited <= doing < self._wanted:
                    await self._pause((loop.time() - began_at) * PAUSE_FACTOR)
        finally:
            self._under_way = None

    async def _pause(self, pause_s: float) -> None:
        self._hurry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pause_s, PAUSE_S_MAX)):
                await self._hurry.wait()

    async def _register_once(self) -> None:
        if not self._lease.is_held:
            # The name servers may know the next master already.
            return
        settings = self._settings
        self._new_topics += self._topics.take_created()
        data, is_compressed = self._encoded_topics()
        header = RegisterBroker(
            broker_name=settings.broker_name,
            broker_addr=self._address,
            cluster_name=settings.broker_cluster_name,
            ha_server_addr=self._ha_address,
            broker_id=settings.broker_id,
            compressed=is_compressed,
            body_crc32=body_crc32(data),
        )
        addresses = self._name_servers.addresses
        gone = self._told.difference(addresses)
        self._told.update(addresses)
        answers, _ = await asyncio.gather(
            self._tell_all(
                addresses,
                lambda: Command(RequestCode.REGISTER_BROKER, ext=write_header(header), body=data),
                settings.register_broker_timeout_mills / 1000,
            ),
            self._forget(gone),
        )
        self._known_to = len(answers)
        self._note_leader(answers)
        if answers and self._new_topics:
            new_topics, self._new_topics = self._new_topics, []
            self.on_new_topics(new_topics)
        ordered = next((answer.body for answer in answers if answer.body), None)
        if ordered is not None:
            self._topics.set_ordered(decode_key_values(ordered).table)

    def _encoded_topics(self) -> tuple[bytes, bool]:
        """Return the body of a registration, and whether it is compressed: one too large for a frame is."""
        shown = self._shown_topics()
        body = RegisterBrokerBody(topics=shown)
        if not self._settings.compressed_register:
            text = self._topics.text if shown.topic_config_table is self._topics.configs else None
            data = encode_register_broker(body, text=text)
            is_large = len(data) > PLAIN_BYTES_MAX
            if is_large != self._is_large:
                self._is_large = is_large
                log.warning(
                    "%d topics take %d bytes as JSON, %s %d: from now on they are registered %s",
                    len(shown.topic_config_table),
                    len(data),
                    "more than" if is_large else "not more than",
                    PLAIN_BYTES_MAX,
                    "compressed; delete topics that nobody uses" if is_large else "as they are",
                )
            if not is_large:
                return data, False
        return encode_register_broker(body, compressed=True), True

    def _note_leader(self, answers: list[Command]) -> None:
        for answer in answers:
            said = read_header(RegisterBrokerAnswer, answer.ext)
            if said.master_addr and said.ha_server_addr:
                self.leader = Leader(said.master_addr, said.ha_server_addr)

    def _shown_topics(self) -> TopicConfigTable:
        """Return the topics as clients may use them: a broker that forbids something forbids it for all."""
        table = self._topics.table()
        allowed = self._settings.broker_permission
        if allowed & Perm.READ and allowed & Perm.WRITE:
            return table
        return TopicConfigTable(
            topic_config_table={
                name: msgspec.structs.replace(config, perm=allowed)
                for name, config in table.topic_config_table.items()
            },
            data_version=table.data_version,
        )

    async def _tell_all(
        self, addresses: Iterable[str], make: Callable[[], Command], timeout_s: float
    ) -> list[Command]:
        told = await asyncio.gather(*(self._tell(address, make(), timeout_s) for address in addresses))
        return [answer for answer in told if answer is not None]

    async def _tell(self, address: str, command: Command, timeout_s: float) -> Command | None:
        try:
            answer = await self._links.request(address, command, timeout_s)
            if answer.code != ResponseCode.SUCCESS:
                raise refusal(answer.code, answer.remark)
        except PyroError as error:
            log.warning("name server %s: %s", address, error)
            return None
        return answer
