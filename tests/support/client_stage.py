"""A stage on which a plan is played: name servers and brokers by hand, no socket, a clock that is moved."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyromq.client.client_session import Session
from pyromq.client.hooks import SendHook
from pyromq.client.identity import ClientIdentity, UniqueIds
from pyromq.client.name_servers import NameServers
from pyromq.client.route_cache import RouteCache
from pyromq.client.steps import Alone, Brought, Call, CallAll, CallAny, Fetch, Pause, Plan, Save, Step
from pyromq.codes import CommandFlag, RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConnectFailed, NetworkError, RequestTimeout
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.route_bodies import (
    BrokerData,
    BrokerQueues,
    ClusterTable,
    TopicRoute,
    encode_cluster,
    encode_route,
)
from pyromq.wire.command import Command
from pyromq.wire.header import read_header, write_header
from pyromq.wire.headers.namesrv_headers import GetRouteInfo
from pyromq.wire.headers.send_headers import SendMessageAnswer, SendMessageV2

T = TypeVar("T")
Broker = Callable[[Command], Command]
NAME_SERVERS = ("ns1:9876", "ns2:9876")


def answer(
    code: int = ResponseCode.SUCCESS, *, remark: str | None = None, header: object = None, body: bytes = b""
) -> Command:
    ext = None if header is None else write_header(header)  # type: ignore[arg-type]
    return Command(code, flag=CommandFlag.RESPONSE, remark=remark, ext=ext, body=body)


def stores(code: int = ResponseCode.SUCCESS) -> Broker:
    """A broker that stores every send, and says how safely."""

    def broker(command: Command) -> Command:
        header = read_header(SendMessageV2, command.ext)
        return answer(code, header=SendMessageAnswer(msg_id="ID", queue_id=header.queue_id, queue_offset=7))

    return broker


def refuses(code: int, remark: str = "no") -> Broker:
    return lambda _command: answer(code, remark=remark)


def route_of(*brokers: str, queues: int = 4, perm: int = 6, order: str | None = None) -> TopicRoute:
    """A route over brokers «a», «b» at a:1, b:1."""
    return TopicRoute(
        queue_datas=[
            BrokerQueues(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
            for name in brokers
        ],
        broker_datas=[
            BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:1"}) for name in brokers
        ],
        order_topic_conf=order,
    )


@dataclass
class Stage:
    """Plays the servers, and notes what was asked of them."""

    clock: ManualClock = field(default_factory=ManualClock)
    settings: ClientSettings = field(default_factory=ClientSettings)
    routes: dict[str, TopicRoute] = field(default_factory=dict)
    brokers: dict[str, Broker] = field(default_factory=dict)
    #: Addresses that refuse connections, and those that take a request and never answer.
    down: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    #: What HTTP addresses say; one that is not here does not answer.
    pages: dict[str, bytes] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    #: Called at every pause, so that a test can change the world meanwhile or end an endless plan.
    on_pause: Callable[[float], None] = lambda _seconds: None

    def session(
        self,
        settings: ClientSettings | None = None,
        *,
        group: str = "group",
        name_servers: tuple[str, ...] = NAME_SERVERS,
        send_hooks: tuple[SendHook, ...] = (),
    ) -> Session:
        return Session(
            group=group,
            settings=settings or self.settings,
            name_servers=NameServers(name_servers, start=0),
            clock=self.clock,
            identity=ClientIdentity("client", 1, UniqueIds("127.0.0.1", 1)),
            routes=RouteCache(self.clock),
            send_hooks=send_hooks,
        )

    def run(self, plan: Plan[T]) -> T:
        try:
            step = next(plan)
            while True:
                try:
                    got = self._carry_out(step)
                except NetworkError as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(got)
        except StopIteration as end:
            result: T = end.value
            return result

    def asked(self, code: RequestCode) -> list[str]:
        """The addresses that were asked this, in order."""
        return [call.address for call in self.calls if call.command.code == code]

    def topics_asked(self) -> list[str]:
        """The topics whose routes were asked for, in order."""
        return [
            read_header(GetRouteInfo, call.command.ext).topic
            for call in self.calls
            if call.command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        ]

    def _carry_out(self, step: Step) -> Brought:
        if isinstance(step, Alone):
            return self.run(step.begin())
        if isinstance(step, Save):
            step.to.save(step.offsets)
            return None
        if isinstance(step, Fetch):
            self.fetched.append(step.url)
            if step.url not in self.pages:
                raise ConnectFailed(f"{step.url} does not answer")
            return self.pages[step.url]
        if isinstance(step, Pause):
            self.pauses.append(step.seconds)
            self.clock.advance(round(step.seconds * 1_000))
            self.on_pause(step.seconds)
            return None
        if isinstance(step, CallAll):
            calls = [Call(step.address, command, step.timeout_s) for command in step.commands]
            return [self._call(call) for call in calls]
        if isinstance(step, CallAny):
            return next(iter([self._call(call) for call in step.calls]))
        return self._call(step)

    def _call(self, step: Call) -> Any:
        self.calls.append(step)
        if step.address in self.down:
            raise ConnectFailed(f"no connection to {step.address}: refused")
        if step.address in self.silent:
            self.clock.advance(round(step.timeout_s * 1_000))
            raise RequestTimeout(f"{step.address} did not answer in time")
        got = self._answer(step)
        return None if step.oneway else got

    def _cluster(self) -> ClusterTable:
        brokers = {data.broker_name: data for route in self.routes.values() for data in route.broker_datas}
        return ClusterTable(broker_addr_table=brokers, cluster_addr_table={"c": sorted(brokers)})

    def _answer(self, call: Call) -> Command:
        if call.address in NAME_SERVERS and call.address not in self.brokers:
            if call.command.code == RequestCode.GET_BROKER_CLUSTER_INFO:
                return answer(body=encode_cluster(self._cluster()))
            topic = read_header(GetRouteInfo, call.command.ext).topic
            if topic not in self.routes:
                return answer(ResponseCode.TOPIC_NOT_EXIST, remark="No topic route info")
            return answer(body=encode_route(self.routes[topic], quoted_keys=True))
        return self.brokers[call.address](call.command)


def two_brokers() -> Stage:
    """Return a stage with brokers a and b that store; topic «orders» is on both, and so is the template."""
    return Stage(
        routes={"orders": route_of("a", "b"), "TBW102": route_of("a", "b", queues=8, perm=7)},
        brokers={"a:1": stores(), "b:1": stores()},
    )
