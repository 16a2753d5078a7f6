"""Every route of the broker, the name server and the client, without a server that answers it.

The functions of `broker_routes.py` and `namesrv_routes.py` are called with something that has whatever they
ask it for, so that a new area, and a new line of an area, are listed by themselves.
"""

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from pyromq import aio
from pyromq.broker.requests import broker_routes as broker_routes_module
from pyromq.broker.requests.route_facts import BrokerRoute
from pyromq.client.consumer.broker_requests import BrokerRequests
from pyromq.client.producer.request_reply import OpenRequests
from pyromq.clock import SystemClock
from pyromq.codes import RequestCode
from pyromq.model import TransactionState
from pyromq.namesrv import namesrv_routes as namesrv_routes_module
from pyromq.net.routes import Route
from pyromq.wire.header import Header
from pyromq.wire.headers.namesrv_headers import NoFields


class Headers(NamedTuple):
    """The header of a request and of its answer."""

    request: type[Header]
    answer: type[Header] | None


class _Handlers:
    """Has every handler that a table of routes may name."""

    def __getattr__(self, name: str) -> Self:
        return self


def broker_routes() -> list[BrokerRoute[Any]]:
    """Return what `broker/requests/broker_routes.py` lists, by code."""
    routes = [route for route in _listed(broker_routes_module) if isinstance(route, BrokerRoute)]
    return sorted(routes, key=lambda route: route.code)


def namesrv_routes() -> list[Route[Any]]:
    """Return what `namesrv/namesrv_routes.py` lists, by code."""
    return sorted(_listed(namesrv_routes_module), key=lambda route: route.code)


def client_routes() -> list[Route[Any]]:
    """Return what brokers may ask clients."""
    producer = aio.TransactionProducer(
        "group",
        "127.0.0.1:1",
        execute=lambda *_: TransactionState.UNKNOWN,
        check=lambda _: TransactionState.UNKNOWN,
    )
    consumer = aio.PushConsumer("group", "127.0.0.1:1", listener=print)
    return [
        *BrokerRequests(_Handlers()).routes(),
        *consumer._engine.routes(),
        *producer._answers(),
        *OpenRequests(SystemClock()).routes,
    ]


def headers_by_code() -> dict[RequestCode, Headers]:
    """Return the headers of every code that somebody answers."""
    routes = [*broker_routes(), *namesrv_routes(), *client_routes()]
    return {
        RequestCode(route.code): Headers(route.header or NoFields, route.answer) for route in reversed(routes)
    }


def _listed(module: object) -> Iterable[Route[Any]]:
    for name, make in inspect.getmembers(module, inspect.isfunction):
        if name.endswith("_routes") and not name.startswith("_"):
            yield from make(**dict.fromkeys(inspect.signature(make).parameters, _Handlers()))
