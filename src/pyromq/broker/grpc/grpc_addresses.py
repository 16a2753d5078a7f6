"""The gRPC addresses of the brokers of a cluster, which SDKs are told.

A broker puts its gRPC address into the name servers' KV table, in the namespace GRPC_ENDPOINTS: under its
address for remoting, and a master under its broker's name as well. Of one that did not, the host is known and
this broker's own gRPC port is taken, as RocketMQ does.

Nothing here needs protobuf: a broker tells its address before its first gRPC connection.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import ConnectFailed, PyroError
from pyromq.net.address import split_address
from pyromq.net.links import Links
from pyromq.wire.command import Command
from pyromq.wire.header import read_header, write_header
from pyromq.wire.headers.namesrv_headers import (
    GetKvConfig,
    GetKvConfigAnswer,
    PutKvConfig,
)

MASTER_ID: Final = 0
NAMESPACE: Final = "GRPC_ENDPOINTS"
ASK_S_MAX: Final = 3.0
#: Brokers and addresses that are remembered.
KNOWN_MAX: Final = 10_000

log = logging.getLogger(__name__)


class GrpcAddressBook:
    """The gRPC addresses of brokers, by their addresses for remoting, and of masters by their names too.

    The replicas of a broker have one name, and each has a port of its own.
    """

    def __init__(
        self,
        links: Links,
        *,
        own_name: str,
        own_address: str,
        own_port: int,
        advertised: str,
        is_master: bool,
    ) -> None:
        self._links = links
        self.own_address = own_address
        self._own_port = own_port
        #: What this broker tells SDKs, `host:port`.
        self.advertised = advertised
        #: What it is known by.
        self._keys = (own_address, own_name) if is_master else (own_address,)
        self._known: dict[str, str] = {}

    def find(self, broker_name: str, address: str) -> tuple[str, int]:
        """Return where SDKs reach a broker whose address for remoting is known: host and port."""
        if address == self.own_address:
            told: str | None = self.advertised
        else:
            told = self._known.get(address) or self._known.get(broker_name)
        if told:
            return split_address(told)
        return split_address(address)[0], self._own_port

    async def tell(self, name_servers: Iterable[str]) -> None:
        """Tell the name servers where SDKs reach this broker; one that is down is told with the next look."""
        for key in self._keys:
            header = PutKvConfig(namespace=NAMESPACE, key=key, value=self.advertised)
            await self._ask_all(name_servers, RequestCode.PUT_KV_CONFIG, write_header(header))

    async def look(self, name_server: str, broker_name: str, addresses: Iterable[str]) -> None:
        """Ask a name server for the gRPC addresses of a broker and its replicas, but for this one."""
        others = [address for address in addresses if address != self.own_address]
        if others:
            await asyncio.gather(*(self._look(name_server, key) for key in (broker_name, *others)))

    async def _look(self, name_server: str, key: str) -> None:
        command = Command(
            RequestCode.GET_KV_CONFIG, ext=write_header(GetKvConfig(namespace=NAMESPACE, key=key))
        )
        try:
            answer = await self._links.request(name_server, command, ASK_S_MAX)
        except PyroError:
            return
        if answer.code == ResponseCode.SUCCESS:
            value = read_header(GetKvConfigAnswer, answer.ext).value
            if value and _is_address(value):
                if len(self._known) >= KNOWN_MAX:
                    del self._known[next(iter(self._known))]
                self._known[key] = value

    async def _ask_all(self, addresses: Iterable[str], code: int, ext: dict[str, str]) -> None:
        async def ask(address: str) -> None:
            try:
                await self._links.request(address, Command(code, ext=dict(ext)), ASK_S_MAX)
            except PyroError as error:
                log.info("name server %s does not hear where SDKs connect: %s", address, error)

        await asyncio.gather(*(ask(address) for address in addresses))


def _is_address(text: str) -> bool:
    try:
        split_address(text)
    except ConnectFailed:
        return False
    return True
