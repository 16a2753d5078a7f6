"""The facts of a request besides its handler: a route of the broker has all of them, or is none.

    needs      what the account that sent it must be allowed to (`acl/needs.py` has the words)
    writes     it stores messages: held back without enough replicas, during a hand-over, and on a full disk
    on_slave   whether a slave answers it, or how it says no
    body       how long its body may be

None of them has a default, so nobody adds a request without having thought about it. `broker_routes.py` is
the table; the gate, the slave, access control and the dispatcher look at the route, and keep no lists of
codes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, TypeVar

from pyromq.broker.access.needs import Anybody, Named, Needs, administrator
from pyromq.net.routes import BodyLimit, Handled, Request, RequestTable, Route
from pyromq.wire.header import Header

H = TypeVar("H")

_TELLS: Final = Anybody("it tells how things are, and no message; clients and tools ask it")


class OnSlave(Enum):
    """The behaviour of a slave for a request; its remarks are in `replication/slave_refusals.py`."""

    #: It answers as its master would: pulls, questions, progress, heartbeats, locks.
    ANSWERS = auto()
    TAKES_NO_MESSAGES = auto()
    TAKES_NOTHING_BACK = auto()
    ENDS_NO_TRANSACTIONS = auto()
    CHANGES_NOTHING = auto()


@dataclass(frozen=True, slots=True)
class BrokerRoute(Route[H]):
    """One request that a broker answers, with its facts."""

    body: BodyLimit = field(kw_only=True)
    needs: Needs = field(kw_only=True)
    writes: bool = field(kw_only=True)
    on_slave: OnSlave = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.writes and self.on_slave is OnSlave.ANSWERS:
            raise ValueError(f"code {self.code} writes: a slave cannot answer it")
        if isinstance(self.needs, Named):
            known = getattr(self.header, "__struct_encode_fields__", ())
            missing = [name for name in self.needs.all_fields if name not in known]
            if missing:
                raise ValueError(f"code {self.code} needs a permission by {missing}, which its header lacks")


class BrokerTable(RequestTable):
    """The routes of a broker; one that lacks its facts is refused."""

    def add(self, routes: Iterable[Route[Any]]) -> None:
        """Answer these codes too. Raises TypeError for a route without a broker's facts."""
        listed = list(routes)
        for route in listed:
            if not isinstance(route, BrokerRoute):
                raise TypeError(f"code {route.code} is no BrokerRoute: who may send it, and does it write?")
        super().add(listed)

    def __iter__(self) -> Iterator[BrokerRoute[Any]]:
        return (route for route in tuple(self.by_code.values()) if isinstance(route, BrokerRoute))

    def find(self, code: int) -> BrokerRoute[Any] | None:
        """Return the route of a code, None when it is not answered."""
        route = self.by_code.get(code)
        return route if isinstance(route, BrokerRoute) else None


# The four kinds that most requests are of -------------------------------------------------------------------


def write(
    code: int,
    handle: Callable[[Request[H]], Handled],
    header: type[H] | None = None,
    answer: type[Header] | None = None,
    *,
    needs: Needs,
    on_slave: OnSlave = OnSlave.TAKES_NO_MESSAGES,
    body: BodyLimit = BodyLimit.MESSAGES,
    refusal_ext: dict[str, str] | None = None,
) -> BrokerRoute[H]:
    """A request that stores messages; only a master does."""
    return BrokerRoute(
        code,
        handle,
        header,
        answer,
        body=body,
        needs=needs,
        writes=True,
        on_slave=on_slave,
        refusal_ext=refusal_ext,
    )


def read(
    code: int,
    handle: Callable[[Request[H]], Handled],
    header: type[H] | None = None,
    answer: type[Header] | None = None,
    *,
    needs: Needs,
    on_slave: OnSlave = OnSlave.ANSWERS,
    body: BodyLimit = BodyLimit.FIELDS_ONLY,
    refusal_ext: dict[str, str] | None = None,
) -> BrokerRoute[H]:
    """A request that needs a permission, and stores no message."""
    return BrokerRoute(
        code,
        handle,
        header,
        answer,
        body=body,
        needs=needs,
        writes=False,
        on_slave=on_slave,
        refusal_ext=refusal_ext,
    )


def look(
    code: int,
    handle: Callable[[Request[H]], Handled],
    header: type[H] | None = None,
    answer: type[Header] | None = None,
    *,
    refusal_ext: dict[str, str] | None = None,
) -> BrokerRoute[H]:
    """A question about how things are."""
    return read(code, handle, header, answer, needs=_TELLS, refusal_ext=refusal_ext)


def order(
    code: int,
    handle: Callable[[Request[H]], Handled],
    header: type[H] | None = None,
    answer: type[Header] | None = None,
    *,
    on_slave: OnSlave,
    body: BodyLimit = BodyLimit.FIELDS_ONLY,
    refusal_ext: dict[str, str] | None = None,
) -> BrokerRoute[H]:
    """An order to the broker, for administrators; `on_slave` says whether slaves obey."""
    return read(
        code,
        handle,
        header,
        answer,
        needs=administrator,
        on_slave=on_slave,
        body=body,
        refusal_ext=refusal_ext,
    )
