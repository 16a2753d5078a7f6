"""All checks, in the order in which they are listed: what is worse for all comes first."""

from typing import Final

from pyromq.doctor.checks.addresses import ADDRESSES, NAME_SERVERS
from pyromq.doctor.checks.busy import BUSY
from pyromq.doctor.checks.check import Check
from pyromq.doctor.checks.clocks import CLOCKS
from pyromq.doctor.checks.disks import DISKS
from pyromq.doctor.checks.filters import FILTERS
from pyromq.doctor.checks.groups import GROUPS
from pyromq.doctor.checks.lag import LAG
from pyromq.doctor.checks.listeners import LISTENERS
from pyromq.doctor.checks.members import CLIENT_IDS, MEMBERS
from pyromq.doctor.checks.permissions import PERMISSIONS
from pyromq.doctor.checks.replicas import REPLICAS
from pyromq.doctor.checks.retention import RETENTION
from pyromq.doctor.checks.retries import RETRIES
from pyromq.doctor.checks.subscriptions import SUBSCRIPTIONS
from pyromq.doctor.checks.topics import QUEUES, TOPICS

CHECKS: Final[tuple[Check, ...]] = (
    NAME_SERVERS,
    ADDRESSES,
    REPLICAS,
    DISKS,
    BUSY,
    PERMISSIONS,
    TOPICS,
    QUEUES,
    CLOCKS,
    GROUPS,
    SUBSCRIPTIONS,
    CLIENT_IDS,
    MEMBERS,
    LISTENERS,
    FILTERS,
    LAG,
    RETENTION,
    RETRIES,
)
