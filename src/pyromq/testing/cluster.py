"""A name server and brokers in this process, on free ports of the loopback address.

    async with Cluster(brokers=2, default_topic_queue_nums=4) as cluster:
        producer = pyromq.aio.Producer("group", name_server=cluster.namesrv_address)

    with running_cluster() as cluster:
        producer = pyromq.Producer("group", name_server=cluster.namesrv_address)

Data is in a temporary folder unless one is given. Files are small, so that a test can fill one.
"""

import asyncio
import dataclasses
import socket
import sys
import tempfile
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pyromq.broker.broker import Broker
from pyromq.clock import Clock, SystemClock
from pyromq.config.load import build
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import MIB, BrokerProcess, NetSettings
from pyromq.config.values import Value
from pyromq.namesrv.namesrv import NameServer
from pyromq.net.loop import new_event_loop
from pyromq.store.files import Files
from pyromq.testing.waiting import aeventually

#: Seconds that a cluster on a thread has to start or to stop.
_THREAD_S_MAX = 30.0
#: Seconds that brokers have for what became due when their clock was moved.
_CATCH_UP_S_MAX = 1.0
#: Where a broker listens beside its port: for the VIP channel, and for replicas.
_NEIGHBOURS = (-2, 1)
#: A minute in milliseconds: no machine is as late as that.
_LATE_MS = 60_000
#: Limits for a broker that shares a loaded machine with the tests. By the defaults of 4.9.8 a late loop
#: refuses sends (after 200 ms) with SYSTEM_BUSY, and the doctor reports that as a problem.
PATIENT: dict[str, Value] = {
    "wait_time_mills_in_send_queue": _LATE_MS,
    "wait_time_mills_in_pull_queue": _LATE_MS,
    "wait_time_mills_in_transaction_queue": _LATE_MS,
    "os_page_cache_busy_time_out_mills": _LATE_MS,
}
#: Settings that suit tests: small files, free ports, patience.
_SMALL: dict[str, Value] = PATIENT | {
    "listen_port": 0,
    "mapped_file_size_commit_log": 16 * MIB,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 5_000,
    "max_index_num": 20_000,
}


class Cluster:
    """Servers on the running loop; `async with` starts and stops them.

    Brokers are named broker-a, broker-b, …, and keep their data in `files`, by default the machine's. Further
    arguments are settings of every broker, by our names. With `has_grpc` RocketMQ 5's SDKs can connect too.
    The name server has the brokers' clock, or one of its own: by one that jumps, brokers fall silent.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        data_dir: Path | None = None,
        clock: Clock | None = None,
        namesrv_clock: Clock | None = None,
        files: Files | None = None,
        namesrv: NamesrvSettings | None = None,
        has_grpc: bool = False,
        **overrides: Value,
    ) -> None:
        self._has_grpc = has_grpc
        self.brokers: dict[str, Broker] = {}
        self._names = [f"broker-{chr(ord('a') + at)}" for at in range(brokers)]
        self._data_dir = data_dir
        self._clock = clock or SystemClock()
        self._namesrv_clock = namesrv_clock or self._clock
        self._files = files
        self._namesrv_settings = namesrv or NamesrvSettings()
        self._overrides = overrides
        self._processes: dict[str, BrokerProcess] = {}
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as closing:
            folder = self._data_dir or Path(
                closing.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-"))
            )
            await self._start_name_server(folder, closing)
            closing.push_async_callback(self._stop_brokers)
            for name in self._names:
                port = _hold_free(closing) if self._has_grpc else 0
                self._processes[name] = self._process(name, folder, port)
                self._hold_ports(name, closing)
                await self.start_broker(name)
            self._closing = closing.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._closing.aclose()

    @property
    def namesrv_address(self) -> str:
        """The name server's address, `host:port`."""
        return f"127.0.0.1:{self.name_server.port}"

    @property
    def broker_addresses(self) -> list[str]:
        """The addresses of the brokers that run, `host:port`."""
        return [broker.address for broker in self.brokers.values()]

    @property
    def grpc_addresses(self) -> list[str]:
        """The addresses that SDKs of RocketMQ 5 connect to, `host:port`."""
        return [f"127.0.0.1:{port}" for broker in self.brokers.values() if (port := broker.grpc.port)]

    async def stop_broker(self, name: str) -> None:
        """Stop a broker in order; its data stays."""
        await self.brokers.pop(name).close()

    async def start_broker(self, name: str) -> None:
        """Start a broker that was stopped, on its old data and its old port."""
        broker = Broker(self._processes[name], clock=self._clock, files=self._files)
        await broker.start()
        self.brokers[name] = broker
        self._keep_port(name, broker.port)

    async def catch_up(self, since: float) -> None:
        """Wait until brokers have done what is due, after the clock was moved to a monotonic time.

        No longer than a second: what waits for a disk or a client is waited for elsewhere.
        """
        with suppress(AssertionError):
            await aeventually(
                lambda: not any(one.is_behind(since) for one in self.brokers.values()), _CATCH_UP_S_MAX
            )

    async def _start_name_server(self, folder: Path, closing: AsyncExitStack) -> None:
        path = self._namesrv_settings.kv_config_path or str(folder / "namesrv" / "kvConfig.json")
        settings = dataclasses.replace(self._namesrv_settings, listen_port=0, kv_config_path=path)
        self.name_server = NameServer(settings, NetSettings(), clock=self._namesrv_clock)
        await self.name_server.start()
        closing.push_async_callback(self.name_server.close)

    async def _stop_brokers(self) -> None:
        for name in list(self.brokers):
            await self.stop_broker(name)

    def _process(self, name: str, folder: Path, grpc_port: int) -> BrokerProcess:
        own: dict[str, Value] = {
            "broker_name": name,
            "grpc_server_port": grpc_port,
            "namesrv_addr": self.namesrv_address,
            "store_path_root_dir": str(folder / name),
        }
        return build(BrokerProcess, _SMALL | own | self._overrides)

    def _hold_ports(self, name: str, closing: AsyncExitStack) -> None:
        """See to it that a broker's ports are its own while it is stopped: any connection may get a free one.

        Only where two sockets may have one port as long as at most one of them listens.
        """
        if sys.platform != "linux" or self._processes[name].broker.listen_port:
            return
        while True:
            with ExitStack() as held:
                port = _hold(held, 0)
                try:
                    for step in _NEIGHBOURS:
                        _hold(held, port + step)
                except OSError:
                    continue
                closing.push(held.pop_all())
                self._keep_port(name, port)
                return

    def _keep_port(self, name: str, port: int) -> None:
        process = self._processes[name]
        broker = dataclasses.replace(process.broker, listen_port=port)
        self._processes[name] = dataclasses.replace(process, broker=broker)


def _hold_free(closing: AsyncExitStack) -> int:
    """Have a free port until the cluster stops, and return its number."""
    held = ExitStack()
    closing.callback(held.close)
    return _hold(held, 0)


def _hold(held: ExitStack, port: int) -> int:
    """Have a port, 0 for any, without listening on it, and return its number."""
    holding = held.enter_context(socket.socket())
    holding.bind(("127.0.0.1", port))
    # Not before: what somebody else holds like this is not ours.
    holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    number: int = holding.getsockname()[1]
    return number


class ThreadCluster:
    """The same on a thread with a loop of its own, for tests and programs that are not asyncio."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pyromq-cluster", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._wait_for(self._cluster.__aenter__())
        except BaseException:
            self._end_thread()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait_for(self._cluster.__aexit__(kind, error, trace))
        finally:
            self._end_thread()

    @property
    def namesrv_address(self) -> str:
        """The name server's address, `host:port`."""
        return self._cluster.namesrv_address

    @property
    def broker_addresses(self) -> list[str]:
        """The addresses of the brokers that run, `host:port`."""
        return self._cluster.broker_addresses

    @property
    def broker_names(self) -> list[str]:
        """The names of the brokers that run: broker-a, broker-b, …"""
        return list(self._cluster.brokers)

    @property
    def grpc_addresses(self) -> list[str]:
        """The addresses that SDKs of RocketMQ 5 connect to, `host:port`."""
        return self._cluster.grpc_addresses

    def stop_broker(self, name: str) -> None:
        """Stop a broker in order; its data stays."""
        self._wait_for(self._cluster.stop_broker(name))

    def start_broker(self, name: str) -> None:
        """Start a broker that was stopped, on its old data and its old port."""
        self._wait_for(self._cluster.start_broker(name))

    def catch_up(self, since: float) -> None:
        """Wait until brokers have done what is due, after the clock was moved to a monotonic time."""
        self._wait_for(self._cluster.catch_up(since))

    def _wait_for(self, step: Coroutine[object, object, object]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(_THREAD_S_MAX)

    def _end_thread(self) -> None:
        # Else the threads that it had for its disk would end a little later.
        self._wait_for(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_THREAD_S_MAX)
        self._loop.close()


def running_cluster(
    brokers: int = 1,
    *,
    data_dir: Path | None = None,
    clock: Clock | None = None,
    namesrv_clock: Clock | None = None,
    files: Files | None = None,
    namesrv: NamesrvSettings | None = None,
    has_grpc: bool = False,
    **overrides: Value,
) -> ThreadCluster:
    """Return a cluster that runs on a thread while its `with` block does."""
    return ThreadCluster(
        Cluster(
            brokers,
            data_dir=data_dir,
            clock=clock,
            namesrv_clock=namesrv_clock,
            files=files,
            namesrv=namesrv,
            has_grpc=has_grpc,
            **overrides,
        )
    )
