"""The health of a broker that serves: whether it is known, takes messages, and is safe.

serving       a name server knows it
store         nothing failed that only a restart mends
disk          there is room for messages
lease         with failover: this master may answer
replication   a master has the replicas that it waits for; a slave copies its master's log
"""

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.registration import Registration
from pyromq.broker.replication.role import Leading, Replicating
from pyromq.net.process_health import HealthCheck
from pyromq.store.store import MessageStore


def broker_checks(
    store: MessageStore, durability: Durability, replicating: Replicating, registration: Registration
) -> list[HealthCheck]:
    """Return what is found of a broker, the worst first."""
    # A store that knows of the failure says more about it.
    ailing = store.ailment or durability.why_failed
    found = [
        HealthCheck("store", ailing and f"a restart is needed: {ailing}", needs_restart=True),
        HealthCheck("serving", registration.why_unknown),
        HealthCheck("disk", store.why_full),
    ]
    if isinstance(replicating, Leading):
        why_few = durability.why_no_messages or replicating.why_alone
        return [*found, HealthCheck("lease", durability.why_shut), HealthCheck("replication", why_few)]
    return [*found, HealthCheck("replication", replicating.why_not_following)]
