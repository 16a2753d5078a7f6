"""Carrying a plan out: step by step on blocking sockets, or on an asyncio loop.

Both do the same: take the next step, do it, and send its answer or throw its error into the plan.
"""

import asyncio
import threading
from typing import TypeVar

from pyromq.client.steps import Alone, Brought, Call, CallAll, Fetch, Pause, Plan, Save, Step
from pyromq.errors import ClientClosed, PyroError, RequestTimeout
from pyromq.net.blocking import BlockingLinks
from pyromq.net.http import fetch
from pyromq.net.links import Links
from pyromq.wire.signing import Sign

T = TypeVar("T")


def _sign_step(step: Step, sign: Sign | None) -> None:
    if sign is None:
        return
    if isinstance(step, Call):
        sign(step.command)
    elif isinstance(step, CallAll):
        for command in step.commands:
            sign(command)


class Blocking:
    """Plans on plain sockets, in the caller's thread. Many threads may run plans at once."""

    def __init__(self, links: BlockingLinks, sign: Sign | None = None) -> None:
        self._links = links
        self._sign = sign
        self._turns: dict[str, threading.Lock] = {}
        self._closing = threading.Event()

    def run(self, plan: Plan[T]) -> T:
        """Carry out a plan and return its result."""
        try:
            step = next(plan)
            while True:
                try:
                    answer = self._carry_out(step)
                except PyroError as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            plan.close()

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
        if isinstance(step, Pause):
            if self._closing.wait(step.seconds):
                raise ClientClosed("the client was closed while it waited")
            return None
        if isinstance(step, Fetch):
            return fetch(step.url, step.timeout_s)
        if isinstance(step, Save):
            step.to.save(step.offsets)
            return None
        self._alone(step)
        return None

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


class Asyncio:
    """Plans on asyncio links, in the caller's task."""

    def __init__(self, links: Links, sign: Sign | None = None) -> None:
        self._links = links
        self._sign = sign
        self._turns: dict[str, asyncio.Lock] = {}

    async def run(self, plan: Plan[T]) -> T:
        """Carry out a plan and return its result; cancelling passes through and ends the plan."""
        try:
            step = next(plan)
            while True:
                try:
                    # A call is what nearly all steps are; it does without a coroutine in between.
                    if step.__class__ is Call and not step.oneway and self._sign is None:
                        answer: Brought = await self._links.request(
                            step.address, step.command, step.timeout_s
                        )
                    else:
                        answer = await self._carry_out(step)
                except PyroError as error:
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
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Fetch):
            return await asyncio.to_thread(fetch, step.url, step.timeout_s)
        if isinstance(step, Save):
            await asyncio.to_thread(step.to.save, step.offsets)
            return None
        await self._alone(step)
        return None

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
