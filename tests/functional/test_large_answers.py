"""A broker's answers of 4 MiB and more: connections hear the next request, slaves copy large tables."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import trustme
from slave_stage import running_pair

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import MIB, NetSettings
from pyromq.net.links import Links
from pyromq.testing.cluster import Cluster
from pyromq.testing.requests import pull_fields, send_v2_fields
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

#: Only ever spent when a test fails.
TIMEOUT_S = 10.0


def tls_files(folder: Path) -> dict[str, Any]:
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "server.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "server.pem"))
    return {
        "tls_server_cert_path": str(folder / "server.pem"),
        "tls_server_key_path": str(folder / "server.key"),
    }


class Asking:
    """One connection to a broker."""

    def __init__(self, address: str, *, use_tls: bool) -> None:
        self.address = address
        self.links = Links(NetSettings(use_tls=use_tls))

    async def ask(self, code: int, fields: dict[str, object], body: bytes = b"") -> Command:
        ext = {name: str(value) for name, value in fields.items()}
        return await self.links.request(self.address, Command(code, ext=ext, body=body), TIMEOUT_S)

    async def send(self, body: bytes) -> None:
        fields = send_v2_fields("orders", {}, queueId=0)
        answer = await self.ask(RequestCode.SEND_MESSAGE_V2, fields, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def pull(self, offset: int) -> int:
        fields = pull_fields("orders", queueOffset=offset, maxMsgNums=1)
        answer = await self.ask(RequestCode.PULL_MESSAGE, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return sum(len(record.body) for record in iter_records(answer.body))


@pytest.mark.parametrize("use_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("count", "size"), [(1, 4 * MIB), (16, 256 * 1024), (17, 256 * 1024)])
async def test_a_connection_that_pulled_much_is_still_heard(
    tmp_path: Path, count: int, size: int, use_tls: bool
) -> None:
    overrides = tls_files(tmp_path) if use_tls else {}
    async with Cluster(data_dir=tmp_path / "data", **overrides) as cluster:
        asking = Asking(cluster.broker_addresses[0], use_tls=use_tls)
        for _ in range(count):
            await asking.send(bytes(size))
        # The first one is answered by Python, and the kernel learns from it.
        for _ in range(3):
            pulled = await asyncio.gather(*[asking.pull(offset) for offset in range(count)])
            assert pulled == [size] * count
            await asking.send(b"and now?")

        await asking.links.close()


async def test_a_slave_copies_tables_that_are_larger_than_what_waits_for_a_reader(tmp_path: Path) -> None:
    high = 64 * 1024
    marks = {"write_buffer_high_water_mark": high, "write_buffer_low_water_mark": high // 4}
    async with running_pair(tmp_path, **marks) as pair:
        master, slave = pair.master.broker, pair.slave.broker
        for at in range(300):
            group, topic = f"{at:0240}", f"topic-{at:0110}"
            master.groups.table.put(SubscriptionGroupConfig(group_name=group))
            master.topics.ensure(topic, queue_count=1)
            master.groups.offsets.commit(group, topic, 0, 0)
        assert (
            min(len(table.encode()) for table in (master.groups.table, master.topics, master.groups.offsets))
            > high
        )

        await pair.caught_up()
        master.groups.table.put(SubscriptionGroupConfig(group_name="the-last"))
        await pair.caught_up()

        assert "the-last" in slave.groups.table.configs
        assert len(slave.topics.configs) == len(master.topics.configs)
        assert len(slave.groups.offsets.pairs()) == len(master.groups.offsets.pairs())
