"""Runs one replica of a group: as master or as slave, as etcd says, one `Broker` after the other.

    watch, tick ──► look at etcd ──► decide ──► take · follow · wait ──► close the Broker, start the next
                          lease kept alive beside it, whatever else takes long

One task makes all decisions, so there is never more than one change of role under way.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pyromq.broker.addresses import advertise, settle_addresses
from pyromq.broker.broker import Broker
from pyromq.broker.failover.decision import Decision, FailoverStep, Me, decide, reason_to_lead
from pyromq.broker.failover.election import Election
from pyromq.broker.failover.endpoints import read_endpoints
from pyromq.broker.failover.etcd_client import EtcdClient, LeaseGone
from pyromq.broker.failover.group import GroupView, ReplicaAddresses, prefix_of
from pyromq.broker.failover.in_sync import LOOK_S, InSyncKeeper
from pyromq.broker.failover.lease_session import LeaseSession
from pyromq.broker.failover.reign import Reign, give_up_place, leave_in_sync, refused
from pyromq.broker.failover.replica_identity import ReplicaIdentity, load_identity, look_back, save_identity
from pyromq.broker.failover.reports import ReplicaHandlers
from pyromq.broker.grpc.grpc_opening import OpenedGrpc
from pyromq.broker.replication.divergence import Diverged
from pyromq.broker.replication.followers import Followers
from pyromq.broker.replication.role import Leading
from pyromq.broker.replication.standing import Leader, Standing
from pyromq.broker.requests.broker_routes import replica_routes
from pyromq.clock import Clock, SystemClock
from pyromq.config.choices import BrokerRole
from pyromq.config.grpc_settings import GrpcOpening
from pyromq.config.settings import BrokerProcess
from pyromq.errors import ConfigError, EtcdFailed, PyroError, Refused
from pyromq.kernel import IS_COMPILED
from pyromq.net.metrics import MetricsPage
from pyromq.store.epochs import FILE_NAME, Epochs
from pyromq.store.files import Files, SystemFiles

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

#: Seconds until a broker that could not be started is tried again.
RETRY_S = 3.0
#: Seconds for which a master that handed over waits for the next one, before it serves without.
SUCCESSION_S = 2.0
#: Seconds for which a master's disk may be full before another replica is master; old files may go meanwhile.
FULL_S = 15.0


class Supervisor:
    """One replica. `start` it, `close` it, as a Broker; its address stays while its role changes.

    `files` and `use_kernel` are its brokers'; `etcd_transport` carries its requests to etcd.
    """

    def __init__(
        self,
        process: BrokerProcess,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        use_kernel: bool = IS_COMPILED,
        etcd_transport: "httpx.AsyncBaseTransport | None" = None,
        opening: GrpcOpening = GrpcOpening.IF_NAMED,
    ) -> None:
        if process.broker.broker_role == BrokerRole.SLAVE:
            raise ConfigError(
                "brokerRole=SLAVE with failover: who is master is decided at etcd; say SYNC_MASTER or"
                " ASYNC_MASTER, which holds for whoever is"
            )
        self._process = process = dataclasses.replace(process, broker=settle_addresses(process.broker))
        self._clock = clock or SystemClock()
        self._files = files or SystemFiles()
        self._use_kernel, self._opening = use_kernel, opening
        self._etcd = EtcdClient(read_endpoints(process.broker.failover), transport=etcd_transport)
        self._session = LeaseSession(
            self._etcd,
            lease_s=-(-process.broker.failover_lease // 1000),
            clock=self._clock,
            on_change=self.wake,
        )
        self._identity = ReplicaIdentity(mark="", port=0)
        self._election = Election(self._etcd, "", ReplicaAddresses(address="", ha_address=""), "")
        self._broker: Broker | None = None
        self._reign: Reign | None = None
        #: Whom the slave that runs here follows.
        self._following: ReplicaAddresses | None = None
        self._view: GroupView | None = None
        self._announced: tuple[int, int, int, bool, bool] | None = None
        self._started_count = 0
        self._leaderless_since: float | None = None
        self._handed_over_at: float | None = None
        #: Where the log parts from a master's, once that was found out, and from whose.
        self._cut: tuple[ReplicaAddresses, int] | None = None
        self._wanted_successor: asyncio.Future[str] | None = None
        self._said = self._wanted_name = ""
        self._wake = asyncio.Event()
        self._first: asyncio.Future[None] | None = None
        self._closing = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        """The address that name servers hand to clients; known once it is started."""
        return self._election.place.address

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._identity.port

    @property
    def registers_with(self) -> tuple[str, ...]:
        """The name servers that the broker that runs now registers with; none between two."""
        return self._broker.registers_with if self._broker is not None else ()

    @property
    def broker(self) -> Broker | None:
        """The broker that runs now, None between two."""
        return self._broker

    @property
    def grpc(self) -> OpenedGrpc:
        """The port for gRPC of the broker that runs now."""
        return OpenedGrpc() if self._broker is None else self._broker.grpc

    @property
    def metrics(self) -> MetricsPage | None:
        """The metrics page of the broker that runs now, if it has one."""
        return None if self._broker is None else self._broker.metrics

    @property
    def is_master(self) -> bool:
        """Whether the broker that runs now is master, and may acknowledge."""
        return self._reign is not None and self._reign.lease.is_held

    @property
    def view(self) -> GroupView | None:
        """The group as it was seen last."""
        return self._view

    @property
    def max_position(self) -> int:
        """The end of the log, 0 between two brokers."""
        return self._broker.max_position if self._broker is not None else 0

    @property
    def followers(self) -> Followers | None:
        """The slaves that follow the broker that runs now, None if it is not the master."""
        return self._reign.duties.followers if self._reign is not None else None

    def wake(self) -> None:
        """Have the next look at once."""
        self._wake.set()

    async def start(self) -> None:
        """Return when a broker runs here, in whatever role, or when it is known that etcd does not answer.

        Raises what the first start of a broker raises; nothing stays behind then.
        """
        process = self._process
        self._identity = await asyncio.to_thread(load_identity, process, self._files)
        broker = dataclasses.replace(process.broker, listen_port=self._identity.port)
        self._process = dataclasses.replace(process, broker=broker)
        ha_port = process.store.ha_listen_port or self._identity.port + 1
        addresses = await advertise(broker, self._identity.port, ha_port)
        self._election = Election(
            self._etcd,
            prefix_of(broker.broker_cluster_name, broker.broker_name),
            ReplicaAddresses(address=addresses.advertised, ha_address=addresses.ha),
            self._identity.mark,
        )
        loop = asyncio.get_running_loop()
        self._first = loop.create_future()
        self._session.start()
        self._tasks = [
            loop.create_task(self._run(), name="decide"),
            loop.create_task(self._watch(), name="watch etcd"),
        ]
        try:
            await self._first
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Hand over to another replica if this one is master, and stop in order."""
        self._closing.set()
        self.wake()
        if self._tasks:
            # A change of role that is under way ends first: half a broker cannot be closed.
            await asyncio.wait({self._tasks[0]})
            self._tasks[1].cancel()
            await asyncio.wait({self._tasks[1]})
        with suppress(EtcdFailed):
            await self._leave_group()
        if self._broker is not None:
            await self._stop_broker(unregister=True)
        await self._session.close()
        await self._etcd.close()

    # Requests

    async def switch_to(self, name: str) -> str:
        """Hand over to a replica, by its address or broker id (empty: the one that has most); return which.

        Raises Refused when this is not the master, or that replica is not in sync.
        """
        if self._reign is None or self._wanted_successor is not None:
            raise refused("this replica is not the master, or a switch is under way")
        self._reign.successor(name)
        self._wanted_name = name
        self._wanted_successor = asyncio.get_running_loop().create_future()
        self.wake()
        return await self._wanted_successor

    # Decisions

    async def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.clear()
            pause_s = LOOK_S
            try:
                await self._step_or_do_without()
            except PyroError as error:
                if self._has_failed_first(error):
                    return
                log.error("%s; it is tried again in %g s", error, RETRY_S)  # noqa: TRY400
                pause_s = RETRY_S
            except Exception as error:
                log.exception("this is a mistake of the program; it goes on in %g s", RETRY_S)
                if self._has_failed_first(error):
                    return
                pause_s = RETRY_S
            if self._broker is not None:
                self._has_begun()
            # After a failure nothing but the end of this replica makes it hurry.
            await self._pause(pause_s, self._wake if pause_s == LOOK_S else None)

    async def _pause(self, pause_s: float, sooner: asyncio.Event | None = None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await (sooner or self._closing).wait()

    async def _watch(self) -> None:
        while True:
            if self._view is not None:
                async for _ in self._etcd.watch(self._election.prefix, self._view.revision):
                    self.wake()
            await asyncio.sleep(LOOK_S)

    async def _step_or_do_without(self) -> None:
        try:
            await self._step()
        except LeaseGone:
            self._session.is_gone()
        except EtcdFailed as error:
            await self._without_etcd(error)

    async def _step(self) -> None:
        view = self._view = await self._election.look()
        await self._settle_doubt(view)
        await self._announce()
        if self._reign is not None:
            self._reign.keeper.saw(view)
        if view.leader is not None:
            self._leaderless_since = None
        elif self._leaderless_since is None:
            self._leaderless_since = self._clock.monotonic()
        if self._wanted_successor is not None:
            await self._switch()
            return
        decision = decide(view, self._me(), leaderless_s=self._since(self._leaderless_since))
        match decision.step:
            case FailoverStep.JOIN:
                await self._election.join(view)
                self.wake()
            case FailoverStep.TAKE:
                await self._take(view)
            case FailoverStep.LEAD:
                await self._lead(view)
            case FailoverStep.FOLLOW:
                await self._follow(view, decision)
            case FailoverStep.WAIT:
                await self._wait(view, decision)

    def _me(self) -> Me:
        return Me(
            address=self.address,
            mark=self._identity.mark,
            lease=self._session.id,
            lease_s=self._session.lease_s,
            is_in_doubt=self._identity.is_in_doubt,
        )

    def _since(self, moment: float | None) -> float:
        return 0.0 if moment is None else self._clock.monotonic() - moment

    async def _announce(self) -> None:
        """Say what is here: under every new lease, for every new broker, and what a new group begins with."""
        is_in_doubt = self._identity.is_in_doubt
        is_compared = is_in_doubt or (self._view is not None and self._view.is_new)
        if not self._session.id or (is_compared and self._broker is None):
            # Replicas of a new group, or in doubt, are compared by what they have: it is not known yet.
            return
        position = self.max_position
        has_room = self._broker is None or self._broker.has_room
        now = (self._session.id, self._started_count, position if is_compared else 0, has_room, is_in_doubt)
        if now != self._announced:
            last_epoch = await asyncio.to_thread(self._last_epoch)
            await self._election.announce(
                self._session.id,
                last_epoch=last_epoch,
                max_position=position,
                has_room=has_room,
                is_in_doubt=is_in_doubt,
            )
            self._announced = now

    async def _settle_doubt(self, view: GroupView) -> None:
        """Doubt no more once this replica is not counted on: it comes in sync again when it has all."""
        if self._identity.is_in_doubt and self.address not in view.group.in_sync:
            await self._remember(is_in_doubt=False)

    def _last_epoch(self) -> int:
        """Return the newest epoch that the log here has; blocks."""
        epochs = Epochs(self._files, Path(self._process.store.store_path_root_dir) / FILE_NAME)
        epochs.load()
        return epochs.last.epoch if epochs.last is not None else 0

    # Master

    async def _take(self, view: GroupView) -> None:
        """Become master, if no other was faster."""
        if view.is_new and self._broker is None:
            # How much it has is known when its store is open, and the one that has most begins.
            await self._be_slave(view, None)
            return
        lease_id = self._session.id
        last_epoch = await asyncio.to_thread(self._last_epoch)
        epoch = await self._election.take(
            view, lease_id, last_epoch=last_epoch, is_in_doubt=self._identity.is_in_doubt
        )
        if epoch is None or lease_id != self._session.id:
            self.wake()
            return
        log.info("this replica is master now, in epoch %d: %s", epoch, reason_to_lead(view, self.address))
        await self._be_master(epoch, await self._election.look())

    async def _lead(self, view: GroupView) -> None:
        """Go on as master; or begin again, if what etcd has is of a reign that ended here."""
        reign = self._reign
        if reign is None or reign.epoch != view.group.epoch or not self._session.is_bound_to(reign.lease):
            await self._take(view)
            return
        if reign.lease.is_held:
            reign.unheld_since = None
            await reign.keeper.look()
            if reign.broker.ailment is not None:
                await self._abdicate(reign.broker.ailment, view.replicas)
            elif reign.broker.has_room:
                reign.full_since = None
            elif reign.full_since is None:
                reign.full_since = self._clock.monotonic()
            elif self._since(reign.full_since) > FULL_S:
                roomy = {address for address, other in view.replicas.items() if other.has_room}
                await self._abdicate("its disk is full, and another's is not", roomy)

    async def _abdicate(self, ailment: str, among: Container[str]) -> None:
        """Let one of these replicas be master, if there is one that may."""
        with suppress(Refused):
            await self._hand_over("", among)
            log.error("this replica is not master any more: %s", ailment)
            self._handed_over_at = self._clock.monotonic()
            await self._stop_broker(unregister=False)

    async def _be_master(self, epoch: int, view: GroupView) -> None:
        lease = self._session.bind(self._election.leader_key)
        self._cut = None
        await self._note_origin(view)
        await self._stop_broker(unregister=False)
        ids = view.group.ids
        in_sync = frozenset(ids[one] for one in view.group.in_sync if one != self.address)
        settings = dataclasses.replace(self._process.broker, broker_id=0)
        standing = Standing(epoch=epoch, lease=lease, in_sync=in_sync, confirmed=self._identity.confirmed)
        try:
            broker = await self._start_broker(dataclasses.replace(self._process, broker=settings), standing)
        except PyroError:
            # Others may be able to: they have what this one has.
            self._session.release()
            others = (one for one in view.group.in_sync if one != self.address and one in view.replicas)
            await self._election.hand_over(view, next(others, None))
            raise
        duties = broker.replicating
        assert isinstance(duties, Leading)
        keeper = InSyncKeeper(
            self._election, duties.followers, view, timeout_s=settings.in_sync_timeout / 1000
        )
        self._reign = Reign(epoch, lease, broker, duties, keeper)
        # What this replica has is what the group has, from now on.
        await self._remember(is_in_doubt=False)
        self._said = ""

    # Slave

    async def _follow(self, view: GroupView, decision: Decision) -> None:
        if self._reign is not None:
            log.warning("this replica is not master any more: %s is", _address(decision.leader))
        elif self._broker is not None and self._following == decision.leader and self._cut is None:
            if self._broker.ailment is None:
                return
            log.error("this replica is started again: %s", self._broker.ailment)
            await self._pause(RETRY_S)
        self._said = ""
        await self._be_slave(view, decision.leader)

    async def _wait(self, view: GroupView, decision: Decision) -> None:
        if self._reign is not None:
            log.warning("this replica is not master any more: its lease has run out")
            await self._be_slave(view, None)
        elif self._broker is None and self._since(self._handed_over_at or 0.0) > SUCCESSION_S:
            await self._be_slave(view, None)
        is_lasting = not view.is_new and self._since(self._leaderless_since) > SUCCESSION_S
        if is_lasting and decision.reason != self._said:
            log.warning("nobody is master: %s", decision.reason)
            self._said = decision.reason

    async def _be_slave(self, view: GroupView | None, leader: ReplicaAddresses | None) -> None:
        group = view.group if view is not None else None
        broker_id = group.ids[self.address] if group is not None else self._identity.broker_id
        await self._remember(broker_id=broker_id)
        await self._stop_broker(unregister=False)
        cut_at = self._cut[1] if self._cut is not None and self._cut[0] == leader else None
        self._cut = None
        if cut_at is not None:
            await self._remember(confirmed=min(self._identity.confirmed, cut_at))
            log.warning("what this replica has behind position %d is not the master's: it goes", cut_at)
        settings = dataclasses.replace(
            self._process.broker, broker_id=broker_id, broker_role=BrokerRole.SLAVE
        )
        standing = Standing(
            epoch=group.epoch if group is not None else 0,
            leader=Leader(leader.address, leader.ha_address) if leader is not None else None,
            cut_at=cut_at,
            confirmed=self._identity.confirmed,
        )
        if leader is not None:
            log.info("this replica follows %s, as broker %d", leader.address, broker_id)
        await self._start_broker(dataclasses.replace(self._process, broker=settings), standing)
        self._following = leader
        await self._note_origin(view)

    async def _note_origin(self, view: GroupView | None) -> None:
        """Remember the group in which the log is begun, while it is empty."""
        if view is not None and view.group.id and self._broker is not None and not self.max_position:
            await self._remember(origin=view.group.id)

    async def _remember(self, **changes: int | str) -> None:
        identity = msgspec.structs.replace(self._identity, **changes)
        if identity != self._identity:
            await asyncio.to_thread(save_identity, self._process, identity, self._files)
            self._identity = identity

    def _diverged(self, error: Diverged) -> None:
        position, view = error.common_end, self._view
        if error.shares_no_epoch and view is not None and self._identity.may_begin_again(view.group):
            position = 0
        if position is None:
            log.error(
                "this replica follows nobody: %s. To let it copy the master's log, stop it and move its"
                " folder %s away",
                error,
                self._process.store.store_path_root_dir,
            )
            return
        if self._following is not None:
            self._cut = self._following, position
            self.wake()

    # Brokers

    async def _start_broker(self, process: BrokerProcess, standing: Standing) -> Broker:
        broker = Broker(
            process,
            clock=self._clock,
            files=self._files,
            use_kernel=self._use_kernel,
            standing=standing,
            on_diverged=self._diverged,
            more_routes=replica_routes(ReplicaHandlers(self, self._process.broker)),
            opening=self._opening,
        )
        await broker.start()
        self._broker = broker
        self._started_count += 1
        return broker

    async def _stop_broker(self, *, unregister: bool) -> None:
        broker, self._broker = self._broker, None
        if self._reign is not None and self._reign.broker is broker:
            self._reign.lease.drop()
            self._reign = None
        self._following = None
        if broker is not None:
            replicating = broker.replicating
            await broker.close(unregister=unregister)
            if replicating is not None:
                await self._remember(confirmed=replicating.confirmed)
            # A disk that failed may lack what was acknowledged.
            self._identity = await asyncio.to_thread(look_back, self._process, self._identity, self._files)

    async def _without_etcd(self, error: EtcdFailed) -> None:
        """Serve what is here while etcd does not answer; a master is none when its lease is over."""
        reign = self._reign
        if reign is not None and not reign.lease.is_held:
            if reign.unheld_since is None:
                reign.unheld_since = self._clock.monotonic()
            elif self._since(reign.unheld_since) > self._session.lease_s:
                log.warning("this replica is not master any more: etcd cannot be asked")
                await self._be_slave(None, None)
        elif self._broker is None and self._identity.broker_id:
            await self._be_slave(None, None)
        if not self._is_told(error):
            log.error("%s; it is tried again, and nobody becomes master meanwhile", error)
        self._has_begun()

    def _has_failed_first(self, error: Exception) -> bool:
        """Tell whoever starts this replica that its first broker does not start, if that is so."""
        if self._broker is not None or self._first is None or self._first.done():
            return False
        self._first.set_exception(error)
        return True

    def _is_told(self, error: EtcdFailed) -> bool:
        return self._session.trouble is not None or "does not answer" in str(error)

    def _has_begun(self) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    # Handing over

    async def _switch(self) -> None:
        future, self._wanted_successor = self._wanted_successor, None
        assert future is not None
        try:
            successor = await self._hand_over(self._wanted_name)
        except PyroError as error:
            if not future.done():
                future.set_exception(error)
            return
        if not future.done():
            future.set_result(successor)
        self._handed_over_at = self._clock.monotonic()
        await self._stop_broker(unregister=False)
        self.wake()

    async def _hand_over(self, name: str, among: Container[str] | None = None) -> str:
        reign = self._reign
        if reign is None:
            raise refused("this replica is not the master")
        successor = reign.successor(name, among)
        await reign.let_catch_up(successor)
        # From here on nothing is acknowledged, whether etcd answers or not.
        self._session.release()
        log.info("this master hands over to %s", successor)
        await give_up_place(self._election, self._session, successor)
        return successor

    async def _leave_group(self) -> None:
        """Let others go on at once, as one that stops in order."""
        if self._reign is None:
            if self._broker is not None:
                # It is gone before it takes itself out of the set, else the master takes it in again at once.
                await self._stop_broker(unregister=True)
                await leave_in_sync(self._election)
            return
        try:
            # The name servers hear of the next one, and forget this one by that.
            await self._hand_over("")
            await self._stop_broker(unregister=False)
        except Refused as reason:
            log.info("this master stops, and nobody follows it: %s", reason.remark)
            self._session.release()
            await self._stop_broker(unregister=True)
            await give_up_place(self._election, self._session, None)


def _address(place: ReplicaAddresses | None) -> str:
    return place.address if place is not None else "nobody"
