"""The client's use of the environment: the name servers, as all RocketMQ clients do."""

import os
from typing import Final

NAME_SERVERS: Final = "NAMESRV_ADDR"


def name_servers() -> str:
    """Return what NAMESRV_ADDR says now, or nothing."""
    return os.environ.get(NAME_SERVERS, "")
