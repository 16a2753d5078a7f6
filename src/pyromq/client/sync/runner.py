"""The life of a blocking client: start and close, carrying plans out, upkeep, and noticing forks."""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from pyromq.client.background_work import Upkeep, keep_up, upkeep_of
from pyromq.client.client_session import Session, net_settings
from pyromq.client.drivers import Blocking
from pyromq.client.signing import signer
from pyromq.client.steps import Plan
from pyromq.client.sync.plain_on_threads import PlainOnThreads, plain_on_threads
from pyromq.errors import AlreadyStarted, ClientClosed
from pyromq.net.blocking import BlockingLinks

T = TypeVar("T")


class Runner:
    """A client's life on plain sockets.

    `new_session` is called at the start, and again in a child of `fork`: there the client gets an id, sockets
    and an upkeep thread of its own, because the parent's are the parent's.
    """

    def __init__(
        self,
        name: str,
        new_session: Callable[[], Session],
        upkeep: Upkeep | None = None,
    ) -> None:
        self._name = name
        self._new_session = new_session
        self._upkeep = upkeep
        # One lock for each process: a thread of the parent may hold the lock at a fork, for ever in a child.
        self._locks: dict[int, threading.Lock] = {}
        self._session: Session | None = None
        self._driver: Blocking | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        #: The sends that need no plan, while the client is open.
        self.plain_sends: PlainOnThreads | None = None

    @property
    def session(self) -> Session:
        """The session of this process; raises ClientClosed before `start` and after `close`."""
        session = self._session
        if session is None or self._is_closed:
            raise ClientClosed(self._complaint())
        if session.identity.pid != os.getpid():
            return self._reopen()
        return session

    @property
    def belongs_to_this_process(self) -> bool:
        """Whether it was started here and not before a fork."""
        return self._session is not None and self._session.identity.pid == os.getpid()

    @property
    def is_started(self) -> bool:
        """Whether it was started and not closed."""
        return self._session is not None and not self._is_closed

    def run(self, plan: Plan[T]) -> T:
        """Carry out a plan in the caller's thread."""
        session, driver = self._session, self._driver
        if session is None or driver is None or self._is_closed:
            plan.close()
            raise ClientClosed(self._complaint())
        if session.identity.pid != os.getpid():
            # The first call in a child of `fork`: the sockets that are open here are the parent's.
            self._reopen()
            return self.run(plan)
        return driver.run(plan)

    def start(self) -> None:
        """Begin."""
        with self._lock():
            if self._is_closed:
                raise ClientClosed(self._complaint())
            if self._session is not None:
                raise AlreadyStarted(f"{self._name} is started already; start it once")
            self._open()

    def close(self, farewell: Callable[[Session], Plan[None]] | None = None) -> None:
        """End, after a farewell to the brokers. Closing again, or what was not started, does nothing."""
        with self._lock():
            driver, session = self._driver, self._session
            if self._is_closed or driver is None or session is None:
                self._is_closed = True
                return
            is_ours = self.belongs_to_this_process
            driver.stop_pauses()
            if self._thread is not None and is_ours and self._thread is not threading.current_thread():
                # A request in flight may take its time; the thread ends at the next one.
                self._thread.join(session.settings.mq_client_api_timeout / 1_000)
            try:
                if farewell is not None and is_ours:
                    driver.run(farewell(session))
            finally:
                self._is_closed = True
                self.plain_sends = None
                driver.close()

    def _open(self) -> Session:
        session = self._new_session()
        links = BlockingLinks(net_settings(session.settings))
        driver = Blocking(links, signer(session.settings))
        self._session, self._driver = session, driver
        self.plain_sends = plain_on_threads(session, driver, links)
        upkeep = upkeep_of(session, self._upkeep)
        if upkeep is not None:
            self._thread = threading.Thread(
                target=keep_up,
                args=(driver, session, upkeep),
                name=f"pyromq-{self._name}",
                daemon=True,
            )
            self._thread.start()
        return session

    def _reopen(self) -> Session:
        with self._lock():
            if self._session is not None and self.belongs_to_this_process:
                return self._session
            if self._driver is not None:
                self._driver.abandon()
            return self._open()

    def _lock(self) -> threading.Lock:
        return self._locks.setdefault(os.getpid(), threading.Lock())

    def _complaint(self) -> str:
        if self._is_closed:
            return f"{self._name} is closed; make a new one"
        return f"{self._name} is not started; call start(), or use it in a `with` block"
