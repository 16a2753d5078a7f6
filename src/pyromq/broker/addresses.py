"""The addresses of a broker: where it listens, and what it tells clients and slaves.

A broker does not start that tells clients an address on which it does not listen. RocketMQ's brokers listen
on all addresses and have no `bindAddress`, so that `brokerIP1` in their files means: clients come by it.

    bindAddress    brokerIP1             the broker listens on
    ------------   -------------------   -------------------------------------------------------------
    not set        not set               127.0.0.1
    not set        of this machine       brokerIP1, and no other address
    not set        of another machine    nothing: it does not start
    0.0.0.0, ::    any                   all addresses
    an address     the same, or unset    that address
    loopback       loopback              that address: a proxy on this machine forwards what comes for it
    loopback       another               nothing: it does not start
    an address     of this machine       nothing, if it is another address of it: it does not start
    an address     of another machine    that address: another machine forwards what comes for it (NAT)

The same holds for `brokerIP2` and the port where slaves copy, except that a second address of this machine is
listened on there beside a given `bindAddress`: a network for replication alone.
"""

import asyncio
import dataclasses
import ipaddress
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyromq.config.settings import BrokerSettings
from pyromq.errors import ConfigError
from pyromq.net.address import join_address
from pyromq.wire.record import encode_host

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_ALL_INTERFACES = ("0.0.0.0", "::")
#: Reserved for documentation, so nothing is there; only the route to it is asked for.
_SOMEWHERE_ELSE = ("192.0.2.1", 9)


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    """The addresses of a broker; `store_host` is the form that records and message ids carry."""

    ip: str
    port: int
    ha: str
    store_host: bytes

    @property
    def advertised(self) -> str:
        """The address that name servers hand to clients."""
        return join_address(self.ip, self.port)


def settle_addresses(broker: BrokerSettings) -> BrokerSettings:
    """Return the settings with the address to listen on, if that is not said; may ask for a host name.

    Raises ConfigError when clients would be told an address on which nobody listens. Tells in the log when
    other machines can connect because `brokerIP1` says so.
    """
    bind = listening_address(broker.bind_address, broker.broker_ip1, key="brokerIP1")
    if not broker.bind_address and not _is_loopback(bind):
        log.warning(
            "%s listens on %s, since brokerIP1 tells clients so: every machine that reaches this address can "
            "connect%s. bindAddress says otherwise; docs/howto/security.md says how to keep it safe",
            broker.broker_name,
            bind,
            "" if broker.acl_enable else ", and needs no account (aclEnable=false)",
        )
    settled = dataclasses.replace(broker, bind_address=bind)
    slaves_address(settled)
    return settled


def slaves_address(broker: BrokerSettings) -> str:
    """Return the address to listen on for slaves; raise ConfigError when they would be told another one."""
    bind, told = broker.bind_address, broker.broker_ip2
    if told and bind not in _ALL_INTERFACES and not _is_loopback(bind) and _is_of_this_machine(told):
        return told
    return listening_address(bind, told, key="brokerIP2")


def listening_address(
    bind: str,
    told: str,
    *,
    key: str,
    resolve: Callable[[str], Sequence[str]] | None = None,
    is_of_this_machine: Callable[[str], bool] | None = None,
) -> str:
    """Return where to listen, so that `told`, the address that others are given by the setting `key`, works.

    The table above is the rule. Raises ConfigError when nobody would listen on `told`.
    """
    is_own = is_of_this_machine or _is_of_this_machine
    if not told or bind == told or bind in _ALL_INTERFACES:
        return bind or LOOPBACK
    known = (resolve or _resolve)(told)
    if bind in known or (_is_loopback(bind) and known and all(map(_is_loopback, known))):
        return bind
    own = next((address for address in known if is_own(address)), None)
    if not bind:
        if own is not None:
            return own
        raise ConfigError(
            f"{key}={told} is told to others, and is no address of this machine: set bindAddress (--listen) "
            "to the address at which connections to it arrive here, or to 0.0.0.0 for all of this machine's"
        )
    if own is not None or _is_loopback(bind):
        raise ConfigError(
            f"{key}={told} is told to others, but bindAddress={bind} listens elsewhere: set it to "
            f"{own or '0.0.0.0'}" + (", or leave it out" if own else "")
        )
    return bind


def _resolve(host: str) -> list[str]:
    """Return the IP addresses of a host, itself if it is one; none where none is known."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(place[4][0]) for place in found))


def _is_of_this_machine(host: str) -> bool:
    """Whether this machine has an address: one that it does not have cannot be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def advertise(broker: BrokerSettings, port: int, ha_port: int) -> BrokerAddresses:
    """Work out the addresses of a broker that listens on `port`, and for slaves on another."""
    ip = broker.broker_ip1 or _own_ip(broker.bind_address)
    return BrokerAddresses(
        ip=ip,
        port=port,
        ha=join_address(broker.broker_ip2 or ip, ha_port),
        store_host=await _host_bytes(ip, port),
    )


def _own_ip(bind_address: str) -> str:
    """Return the address listened on, or this machine's own where that is all of them."""
    if bind_address not in _ALL_INTERFACES:
        return bind_address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # A datagram socket sends nothing when it connects; it only learns the way out.
            probe.connect(_SOMEWHERE_ELSE)
        except OSError:
            return "127.0.0.1"
        own: str = probe.getsockname()[0]
        return own


async def _host_bytes(host: str, port: int) -> bytes:
    try:
        return encode_host(host, port)
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"brokerIP1: no address is known for {host!r}; write an IP address") from error
    return encode_host(str(found[0][4][0]), port)
