"""Endpoints, as RocketMQ 5's SDKs are told addresses and tell them."""

from ipaddress import ip_address

from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.proto_numbers import AddressScheme


def endpoints_of(host: str, port: int) -> pb.Endpoints:
    """Return the endpoints of one address."""
    try:
        version = ip_address(host).version
    except ValueError:
        scheme = AddressScheme.DOMAIN_NAME
    else:
        scheme = AddressScheme.IPV6 if version == 6 else AddressScheme.IPV4
    return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=host, port=port)])


def are_usable(endpoints: pb.Endpoints) -> bool:
    """Return whether an SDK can use endpoints: it has a scheme and an address, and a name has only one."""
    count = len(endpoints.addresses)
    if not count or endpoints.scheme not in tuple(AddressScheme):
        return False
    return count == 1 or endpoints.scheme != AddressScheme.DOMAIN_NAME
