"""Tools for tests of code that uses RocketMQ: `docs/howto/testing.md` shows them.

pytest finds the fixtures `pyromq_broker`, `pyromq_clock` and their like by itself. Without pytest there are
clusters in this process, clocks that are moved, and waiting for conditions. These names are public; the
other modules of this package are for PyroMQ's own tests, and change with them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.testing.broker_of_test import BrokerOfTest, ClockOfTest
    from pyromq.testing.cluster import Cluster, ThreadCluster, running_cluster
    from pyromq.testing.manual_clock import ManualClock
    from pyromq.testing.session_servers import ClusterOfTest
    from pyromq.testing.shifted_clock import ShiftedClock
    from pyromq.testing.waiting import aeventually, eventually

__all__ = [
    "BrokerOfTest",
    "ClockOfTest",
    "Cluster",
    "ClusterOfTest",
    "ManualClock",
    "ShiftedClock",
    "ThreadCluster",
    "aeventually",
    "eventually",
    "running_cluster",
]

#: Where the names are. They are imported when somebody asks for them: pytest imports this at every start.
_PLACES = {
    "BrokerOfTest": "broker_of_test",
    "ClockOfTest": "broker_of_test",
    "Cluster": "cluster",
    "ThreadCluster": "cluster",
    "running_cluster": "cluster",
    "ManualClock": "manual_clock",
    "ClusterOfTest": "session_servers",
    "ShiftedClock": "shifted_clock",
    "aeventually": "waiting",
    "eventually": "waiting",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{place}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES})
