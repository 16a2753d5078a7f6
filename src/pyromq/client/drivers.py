"""Drivers carry a plan out, step by step: on blocking sockets, or on an asyncio loop.

Each driver takes the next step, does it, and sends its answer or throws its error into the plan. The local
runners are for plans that need no connection.
"""

import asyncio
import threading
from typing import TypeVar

from pyromq.client.steps import (
    Alone,
    Await,
    Brought,
    Call,
    CallAll,
    CallAny,
    Compute,
    Fetch,
    Pause,
    Plan,
    Save,
    Step,
)
from pyromq.errors import ClientClosed, RequestTimeout
from pyromq.net.blocking import BlockingLinks
from pyromq.net.http import fetch
from pyromq.net.links import Links
from pyromq.wire.command import Command
from pyromq.wire.signature import Sign

T = TypeVar("T")


def _sign_step(step: Step, sign: Sign | None) -> None:
    if sign is None:
        return
    if isinstance(step, Call):
        sign(step.command)
    elif isinstance(step, CallAll):
        for command in step.commands:
            sign(command)
    elif isinstance(step, CallAny):
        for call in step.calls:
            sign(call.command)


class LocalRunner:
    """A driver for plans without a connection, in the caller's thread. Many threads may run plans at once."""

    def run(self, plan: Plan[T]) -> T:
        """Carry out a plan and return its result."""
        try:
            step = next(plan)
            while True:
                try:
                    answer = self._carry_out(step)
                except BaseException as error:  # noqa: BLE001  every error is the plan's to handle
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            plan.close()

    def _carry_out(self, step: Step) -> Brought:
        if not isinstance(step, Compute):
            raise TypeError(f"{step} cannot be carried out by a {type(self).__name__}")
        step.result = step.call()
        return None


class Blocking(LocalRunner):
    """A driver on plain sockets."""

    def __init__(self, links: BlockingLinks, sign: Sign | None = None) -> None:
        self._links = links
        self._sign = sign
        self._turns: dict[str, threading.Lock] = {}
        self._closing = threading.Event()

    def stop_pauses(self) -> None:
        """End all pauses, now and later, with ClientClosed: nobody waits out an interval to close."""
        self._closing.set()

    def close(self) -> None:
        """Close the links."""
        self.stop_pauses()
        self._links.close()

    def abandon(self) -> None:
        """Close the links in a child of `fork`, and touch nothing that a thread of the parent may hold."""
        self._links.close()

    def _carry_out(self, step: Step) -> Brought:
        _sign_step(step, self._sign)
        if isinstance(step, Call):
            if step.oneway:
                self._links.oneway(step.address, step.command, step.timeout_s)
                return None
            return self._links.request(step.address, step.command, step.timeout_s)
        if isinstance(step, CallAll):
            return self._links.request_all(step.address, step.commands, step.timeout_s)
        if isinstance(step, CallAny):
            asked = [(call.address, call.command) for call in step.calls]
            return self._links.request_any(asked, step.timeout_s)
        if isinstance(step, Pause):
            if self._closing.wait(step.seconds):
                raise ClientClosed("the client was closed while it waited")
            return None
        if isinstance(step, Fetch):
            return fetch(step.url, step.timeout_s)
        if isinstance(step, Save):
            step.to.save(step.offsets)
            return None
        if isinstance(step, Alone):
            self._alone(step)
            return None
        return super()._carry_out(step)

    def _alone(self, step: Alone) -> None:
        turn = self._turns.setdefault(step.key, threading.Lock())
        if not turn.acquire(timeout=step.timeout_s):
            raise RequestTimeout(
                f"another call was still busy with {step.key!r} after {step.timeout_s:.1f} s"
            )
        try:
            self.run(step.begin())
        finally:
            turn.release()


class LocalLoopRunner:
    """A driver for plans without a connection, in the caller's task."""

    async def run(self, plan: Plan[T]) -> T:
        """Carry out a plan and return its result; a plan that is cancelled may take its last steps."""
        try:
            step = next(plan)
            while True:
                try:
                    answer = await self._carry_out(step)
                except BaseException as error:  # noqa: BLE001  every error is the plan's to handle
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            plan.close()

    async def _carry_out(self, step: Step) -> Brought:
        if isinstance(step, Compute):
            step.result = await asyncio.to_thread(step.call)
        elif isinstance(step, Await):
            step.result = await step.call()
        else:
            raise TypeError(f"{step} cannot be carried out by a {type(self).__name__}")
        return None


class Asyncio(LocalLoopRunner):
    """A driver on asyncio links."""

    def __init__(self, links: Links, sign: Sign | None = None) -> None:
        self._links = links
        self._sign = sign
        self._turns: dict[str, asyncio.Lock] = {}

    async def run(self, plan: Plan[T]) -> T:
        """Carry out a plan and return its result; a plan that is cancelled may take its last steps."""
        try:
            step = next(plan)
            while True:
                try:
                    # Nearly all steps are calls; they do without a coroutine in between.
                    if step.__class__ is Call and not step.oneway and self._sign is None:
                        answer: Brought = await self._links.request(
                            step.address, step.command, step.timeout_s
                        )
                    else:
                        answer = await self._carry_out(step)
                except BaseException as error:  # noqa: BLE001  every error is the plan's to handle
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            plan.close()

    async def close(self) -> None:
        """Close the links."""
        await self._links.close()

    async def _carry_out(self, step: Step) -> Brought:
        _sign_step(step, self._sign)
        if isinstance(step, Call):
            if step.oneway:
                await self._links.oneway(step.address, step.command, step.timeout_s)
                return None
            return await self._links.request(step.address, step.command, step.timeout_s)
        if isinstance(step, CallAll):
            asked = [self._links.request(step.address, one, step.timeout_s) for one in step.commands]
            return await asyncio.gather(*asked)
        if isinstance(step, CallAny):
            return await self._any(step)
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Fetch):
            return await asyncio.to_thread(fetch, step.url, step.timeout_s)
        if isinstance(step, Save):
            await asyncio.to_thread(step.to.save, step.offsets)
            return None
        if isinstance(step, Alone):
            await self._alone(step)
            return None
        return await super()._carry_out(step)

    async def _any(self, step: CallAny) -> Command:
        asked = [
            asyncio.ensure_future(self._links.request(call.address, call.command, step.timeout_s))
            for call in step.calls
        ]
        try:
            answered, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            return answered.pop().result()
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _alone(self, step: Alone) -> None:
        turn = self._turns.setdefault(step.key, asyncio.Lock())
        try:
            async with asyncio.timeout(step.timeout_s):
                await turn.acquire()
        except TimeoutError as error:
            raise RequestTimeout(
                f"another call was still busy with {step.key!r} after {step.timeout_s:.1f} s"
            ) from error
        try:
            await self.run(step.begin())
        finally:
            turn.release()
