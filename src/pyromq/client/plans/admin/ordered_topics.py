"""The name servers' table of ordered topics: how many queues of each topic each broker has.

A broker takes from it which topics are ordered whenever it registers, as RocketMQ 4.9's do; a route has it
where `orderMessageEnable` is set.
"""

from collections.abc import Iterable
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError, NoRoute, Refused
from pyromq.wire.bodies.route_bodies import BrokerData
from pyromq.wire.header import read_header
from pyromq.wire.headers.namesrv_headers import GetKvConfig, GetKvConfigAnswer, PutKvConfig

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


def set_order(
    session: Session,
    topic: str,
    brokers: Iterable[BrokerData],
    queue_count: int,
    *,
    is_whole: bool,
    deadline: Deadline,
) -> Plan[None]:
    """Say that these brokers have so many queues of a topic; others keep theirs, unless `is_whole`."""
    timeout_s = deadline.part_s(deadline.timeout_ms)
    parts: dict[str, str] = {}
    if not is_whole:
        key = GetKvConfig(namespace=ORDER_NAMESPACE, key=topic)
        answer = yield from ask(
            session.name_servers.current, request(RequestCode.GET_KV_CONFIG, key), timeout_s
        )
        if answer.code != ResponseCode.QUERY_NOT_FOUND:
            value = read_header(GetKvConfigAnswer, must_succeed(answer).ext).value or ""
            parts = {part.partition(":")[0]: part for part in value.split(";") if part}
    for broker in brokers:
        if broker.broker_name:
            parts[broker.broker_name] = f"{broker.broker_name}:{queue_count}"
    header = PutKvConfig(namespace=ORDER_NAMESPACE, key=topic, value=";".join(parts.values()))
    for address in session.name_servers.addresses:
        command = request(RequestCode.PUT_KV_CONFIG, header)
        try:
            must_succeed((yield from ask(address, command, timeout_s)))
        except (NetworkError, Refused) as error:
            raise NoRoute(
                f"the topic is there, but name server {address} does not know that it is ordered: {error}; "
                "do it again when it answers"
            ) from error
