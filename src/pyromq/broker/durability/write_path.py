"""The way of a message into the log, as handlers are given it."""

from dataclasses import dataclass

from pyromq.broker.addresses import BrokerAddresses
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.topics.intake import Admission, Intake


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePath:
    """A topic is admitted, the message is taken in, the answer is acknowledged; its record has an address."""

    admission: Admission
    intake: Intake
    durability: Durability
    addresses: BrokerAddresses
