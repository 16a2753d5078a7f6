"""Accounts of brokers (ACL) for operators. Secrets go to the brokers, and never come back."""

from dataclasses import dataclass

from pyromq.client.client_session import Session
from pyromq.client.plans.admin.scaling_plans import ServerReply
from pyromq.client.plans.admin.targets import BrokerPlace, places, tell_each, timeout_s
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode
from pyromq.errors import NetworkError, ProtocolError, Refused
from pyromq.wire.bodies.body import read_map, read_object
from pyromq.wire.bodies.topic_bodies import DataVersion, decode_data_version
from pyromq.wire.command import Command
from pyromq.wire.header import Header, read_header
from pyromq.wire.headers.access_headers import AccessVersionAnswer, CreateAccessConfig, DeleteAccessConfig
from pyromq.wire.headers.access_headers import UpdateGlobalWhiteAddresses as WhiteAddresses
from pyromq.wire.java_json import dumps

AccountChange = CreateAccessConfig


@dataclass(frozen=True, slots=True)
class AccessVersions:
    """The versions of a broker's account files, or why it does not tell them."""

    place: BrokerPlace
    files: dict[str, DataVersion]
    failure: str | None = None


def update_account(
    session: Session,
    account: AccountChange,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[ServerReply]]:
    """Add or change an account on one broker, or on all of a cluster, slaves too."""
    return (
        yield from _tell(
            session, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, account, deadline, cluster_name, address
        )
    )


def delete_account(
    session: Session,
    access_key: str,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[ServerReply]]:
    """Remove an account."""
    header = DeleteAccessConfig(access_key=access_key)
    return (yield from _tell(session, RequestCode.DELETE_ACL_CONFIG, header, deadline, cluster_name, address))


def update_white_addresses(
    session: Session,
    addresses: str,
    path: str | None,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[ServerReply]]:
    """Change the addresses that need no signature."""
    header = WhiteAddresses(global_white_addrs=addresses, acl_file_full_path=path)
    code = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
    return (yield from _tell(session, code, header, deadline, cluster_name, address))


def access_versions(
    session: Session, deadline: Deadline, *, cluster_name: str | None = None, address: str | None = None
) -> Plan[list[AccessVersions]]:
    """Return the versions of the account files of brokers."""
    found = []
    for place in (yield from places(session, deadline, cluster_name=cluster_name, address=address)):
        command = request(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        try:
            answer = must_succeed((yield from ask(place.address, command, timeout_s(session))))
            found.append(AccessVersions(place, _files(answer)))
        except (NetworkError, Refused, ProtocolError) as error:
            found.append(AccessVersions(place, {}, str(error)))
    return found


def _files(answer: Command) -> dict[str, DataVersion]:
    header = read_header(AccessVersionAnswer, answer.ext)
    table = read_object(header.all_acl_file_version.encode())
    return {
        str(path): decode_data_version(dumps(read_map(version, "version"))) for path, version in table.items()
    }


def _tell(
    session: Session,
    code: RequestCode,
    header: Header,
    deadline: Deadline,
    cluster_name: str | None,
    address: str | None,
) -> Plan[list[ServerReply]]:
    meant = yield from places(session, deadline, cluster_name=cluster_name, address=address, with_slaves=True)
    return (yield from tell_each(session, [place.address for place in meant], lambda: request(code, header)))
