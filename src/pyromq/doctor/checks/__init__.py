"""All checks, in the order in which they are listed: what is worse for all comes first.

Those for production tell what a trial may have and a cluster that people rely on should not; they are made
when somebody asks for them.
"""

from typing import Final

from pyromq.doctor.checks.address_check import ADDRESSES, NAME_SERVERS
from pyromq.doctor.checks.busy_check import BUSY
from pyromq.doctor.checks.check import Check
from pyromq.doctor.checks.clock_check import CLOCKS
from pyromq.doctor.checks.disk_check import DISKS
from pyromq.doctor.checks.door_check import DOOR
from pyromq.doctor.checks.filter_check import FILTERS
from pyromq.doctor.checks.group_check import GROUPS
from pyromq.doctor.checks.growth_check import NARROW, UNREAD_LETTERS
from pyromq.doctor.checks.lag_check import LAG
from pyromq.doctor.checks.listener_check import LISTENERS
from pyromq.doctor.checks.member_check import CLIENT_IDS, MEMBERS
from pyromq.doctor.checks.opening_check import ACCESS, ADVERTISED, AUTO_CREATE, METRICS
from pyromq.doctor.checks.permission_check import PERMISSIONS
from pyromq.doctor.checks.pop_check import POPS
from pyromq.doctor.checks.replica_check import REPLICAS
from pyromq.doctor.checks.retention_check import RETENTION
from pyromq.doctor.checks.retry_check import RETRIES
from pyromq.doctor.checks.safety_check import DURABILITY, ROOM, SPARES, VERSIONS
from pyromq.doctor.checks.subscription_check import SUBSCRIPTIONS
from pyromq.doctor.checks.topic_check import QUEUES, TOPICS

CHECKS: Final[tuple[Check, ...]] = (
    NAME_SERVERS,
    ADDRESSES,
    REPLICAS,
    DISKS,
    BUSY,
    DOOR,
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
    POPS,
    LAG,
    RETENTION,
    RETRIES,
)

PRODUCTION: Final[tuple[Check, ...]] = (
    DURABILITY,
    SPARES,
    ACCESS,
    ADVERTISED,
    AUTO_CREATE,
    ROOM,
    METRICS,
    VERSIONS,
    NARROW,
    UNREAD_LETTERS,
)
