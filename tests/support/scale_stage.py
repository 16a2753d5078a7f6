"""Brokers that come to a cluster which is running, and others that are there only in name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from namesrv_stage import StageBroker

from pyromq.broker.broker import Broker
from pyromq.config.load import build
from pyromq.config.settings import MIB, BrokerProcess
from pyromq.config.values import Value
from pyromq.testing.cluster import PATIENT
from pyromq.testing.wire_client import WireClient


def joining_process(namesrv_address: str, folder: Path, name: str, **changes: Value) -> BrokerProcess:
    """Return the settings of a broker that takes over the cluster's topics, if `changes` do not forbid it."""
    return build(
        BrokerProcess,
        {
            **PATIENT,
            "broker_name": name,
            "listen_port": 0,
            "namesrv_addr": namesrv_address,
            "store_path_root_dir": str(folder / name),
            "mapped_file_size_commit_log": 1 * MIB,
            "copy_topics_on_join": True,
            **changes,
        },
    )


@asynccontextmanager
async def joining_broker(
    namesrv_address: str, folder: Path, name: str = "broker-new", **changes: Value
) -> AsyncIterator[Broker]:
    """Run a broker that comes to a cluster."""
    broker = Broker(joining_process(namesrv_address, folder, name, **changes))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()


@asynccontextmanager
async def silent_broker(
    namesrv_address: str, name: str = "broker-silent", *topics: str
) -> AsyncIterator[str]:
    """Register a master that takes connections and never says a word; its address comes back."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with WireClient(namesrv_address) as client:
            await StageBroker(client, name, port=port).has_topics(*topics).register()
            yield f"127.0.0.1:{port}"
    finally:
        server.close()
        for writer in held:
            writer.close()
        await server.wait_closed()
