"""The name servers of a broker: those of `namesrvAddr`, else those that an HTTP address tells.

`namesrvAddr` may change while the broker runs, and what the HTTP address says too. Nobody keeps a copy:
registration, and whoever asks who else there is, look here each time.
"""

import asyncio
import logging
from collections.abc import Callable

from pyromq.config.settings import BrokerSettings
from pyromq.errors import ConnectFailed
from pyromq.net.discovery import REFRESH_MS, domain_url, read_addresses, split_addresses
from pyromq.net.http import fetch

log = logging.getLogger(__name__)

#: Seconds that the HTTP address has for its answer.
ANSWER_S_MAX = 3.0
#: Seconds until it is asked again as long as it told nothing: no client finds the broker then.
RETRY_S = 5.0


class RegistrationTargets:
    """The name servers of one broker, as they are now."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._told: tuple[str, ...] = ()
        self._asking: asyncio.Task[None] | None = None
        #: Called when the HTTP address told others than before.
        self.on_change: Callable[[], None] = lambda: None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Their addresses, each once; none where nobody named one."""
        return split_addresses(self._settings.namesrv_addr, "namesrvAddr") or self._told

    @property
    def is_asking(self) -> bool:
        """Whether an HTTP address is to tell them."""
        settings = self._settings
        return settings.fetch_namesrv_addr_by_address_server and not settings.namesrv_addr.strip("; ")

    @property
    def url(self) -> str:
        """The HTTP address."""
        settings = self._settings
        return domain_url(settings.rmq_address_server_domain, settings.rmq_address_server_sub_group)

    @property
    def pause_s(self) -> float:
        """Seconds until the HTTP address is asked again."""
        return RETRY_S if self.is_asking and not self._told else REFRESH_MS / 1_000

    async def refresh(self) -> None:
        """Ask the HTTP address, if one is to tell them; what fails waits for the next time."""
        if not self.is_asking:
            return
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask(), name="ask for name servers")
            self._asking.add_done_callback(self._asked)
        # Who gives up waiting does not end it: the answer is wanted all the same.
        await asyncio.shield(self._asking)

    async def close(self) -> None:
        """Stop what is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _ask(self) -> None:
        url = self.url
        try:
            told = read_addresses(await asyncio.to_thread(fetch, url, ANSWER_S_MAX), url)
        except ConnectFailed as error:
            log.warning("the name servers are not known anew, %s: %s", _stay(self._told), error)
            return
        if set(told) != set(self._told):
            log.info("the name servers are now %s, as %s says", ", ".join(told), url)
            self._told = told
            self.on_change()

    def _asked(self, _task: "asyncio.Task[None]") -> None:
        self._asking = None


def _stay(addresses: tuple[str, ...]) -> str:
    return "the old ones stay" if addresses else "and clients cannot find this broker"
