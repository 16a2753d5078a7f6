"""The owner of a client's background work, which goes on until the client is closed, whatever happens."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from pyromq.client.client_session import Session
from pyromq.client.drivers import Asyncio, Blocking
from pyromq.client.plans.presence_plans import follow_name_servers
from pyromq.client.steps import Plan
from pyromq.errors import ClientClosed

_log = logging.getLogger("pyromq.client")

#: An endless plan that begins with a pause.
Upkeep: TypeAlias = Callable[[Session], Plan[None]]


def upkeep_of(session: Session, upkeep: Upkeep | None) -> Upkeep | None:
    """Return a client's upkeep; one that has none still asks an HTTP address that tells its name servers."""
    return follow_name_servers if upkeep is None and session.name_servers.source is not None else upkeep


def keep_up(driver: Blocking, session: Session, upkeep: Upkeep) -> None:
    """Carry out the upkeep on this thread until the driver is closed."""
    while True:
        try:
            driver.run(upkeep(session))
        except ClientClosed:
            return
        except Exception:  # noqa: BLE001  the upkeep outlives its own mistakes
            _log.exception("the upkeep of client %s failed; it begins anew", session.identity.client_id)


async def akeep_up(driver: Asyncio, session: Session, upkeep: Upkeep) -> None:
    """Carry out the upkeep in this task until it is cancelled."""
    while True:
        try:
            await driver.run(upkeep(session))
        except Exception:  # noqa: BLE001  the upkeep outlives its own mistakes
            _log.exception("the upkeep of client %s failed; it begins anew", session.identity.client_id)
