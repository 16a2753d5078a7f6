"""Types of what FastStream's context has, for parameters of handlers."""

from typing import Annotated

from faststream import Context
from faststream.annotations import ContextRepo, Logger
from faststream.params import NoCast

from pyromq.faststream.rocket_broker import RocketBroker as _Broker
from pyromq.faststream.rocket_messages import RocketMessage as _Message

__all__ = ["ContextRepo", "Logger", "NoCast", "RocketBroker", "RocketMessage"]

RocketMessage = Annotated[_Message, Context("message")]
RocketBroker = Annotated[_Broker, Context("broker")]
