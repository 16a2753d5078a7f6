"""A plain send, from socket to disk to a held pull, runs through the modules that ARCHITECTURE.md names.

One send is traced in a real broker, from the bytes that arrive to the end of their turn, in which the answer
leaves and the held pull is woken. What that pull does then is the way of a pull.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import pyromq
from pyromq.broker.broker import Broker
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.codes import RequestCode, ResponseCode
from pyromq.kernel import IS_COMPILED
from pyromq.net.link import Link
from pyromq.net.turn import Turn
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import held_pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient

MODULES_MAX = 15
PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
SOURCE = Path(pyromq.__file__).parent
#: Words that every module uses, and no step of the way: they look at nothing and keep nothing.
VOCABULARY = {
    "clock.py",
    "testing/manual_clock.py",  # the clock of this test
    "text_cache.py",
    "store/messages.py",  # the store's model: a draft, and where it was placed
    "broker/topics/topic_names.py",  # which names a topic may have
    "wire/header.py",  # fields to a typed header
    "wire/properties.py",  # the property string
    "wire/java_hash.py",  # Java's hash, and the order of its maps
    "wire/message_id.py",
    # The Python twins of what is compiled elsewhere.
    "store/queue_tail.py",
    "store/index/index_tail.py",
    "net/inlet.py",
}
PULL = "broker/requests/handlers/pull_handlers.py"


class Trace:
    """Notes the modules that run while links handle bytes and turns end, in the order of their first call."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.woken_count = 0
        # What inlets and the end of their turn call, compiled or not.
        self._roots = {Link._handle_received.__code__, Link.handle_left.__code__, Turn._run_steps.__code__}
        self._roots |= {
            code
            for code in Durability.shortcut.__code__.co_consts
            if isinstance(code, CodeType) and code.co_name == "take"
        }
        #: The frames that are running: of a root, and of a pull that was woken.
        self._root: FrameType | None = None
        self._pull: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take one event of `sys.setprofile`."""
        if event == "call":
            if self._root is None and frame.f_code in self._roots:
                self._root = frame
            if self._root is not None and self._pull is None:
                self._note(frame)
        elif event == "return":
            if frame is self._root:
                self._root = None
            elif frame is self._pull:
                self._pull = None

    def _note(self, frame: FrameType) -> None:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(SOURCE):
            return
        module = path.relative_to(SOURCE).as_posix()
        if module == PULL:
            self._pull = frame
            self.woken_count += 1
        elif module not in VOCABULARY and module not in self.modules:
            self.modules.append(module)


def named_on_the_page(title: str) -> list[str]:
    """Return the modules of a numbered list, in its order."""
    section = PAGE.read_text().partition("## The way of a send\n")[2].partition("\n## ")[0]
    listed = section.partition(f"**{title}**")[2].partition("\n**")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", listed, re.MULTILINE)


@pytest.fixture
async def cluster(
    tmp_path: Path, use_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cluster]:
    if not use_kernel:
        made = Broker.__init__
        monkeypatch.setattr(
            Broker, "__init__", lambda self, *given, **named: made(self, *given, use_kernel=False, **named)
        )
    # Nothing that is done now and then is due: the clock stands.
    async with Cluster(data_dir=tmp_path, clock=ManualClock()) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("title", "use_kernel"),
    [
        ("The long way", False),
        pytest.param(
            "The shortcut", True, marks=pytest.mark.skipif(not IS_COMPILED, reason="there is no kernel")
        ),
    ],
)
async def test_a_send_runs_through_the_modules_that_the_page_names(
    cluster: Cluster, title: str, use_kernel: bool
) -> None:
    (broker,) = cluster.brokers.values()
    async with WireClient(broker.address) as producer, WireClient(broker.address) as consumer:

        async def send() -> None:
            fields = send_v2_fields("orders", {"KEYS": "order-7", "UNIQ_KEY": "0A", "TAGS": "paid"})
            answer = await producer.ask(RequestCode.SEND_MESSAGE_V2, fields, b"body")
            assert answer.code == ResponseCode.SUCCESS, answer.remark

        # The first makes the topic, and teaches the kernel; the second finds it saved.
        for _ in range(3):
            await send()
        # And so does a pull that finds them.
        await consumer.ask(RequestCode.PULL_MESSAGE, held_pull_fields("orders"))
        pull = consumer.begin(RequestCode.PULL_MESSAGE, held_pull_fields("orders", queueOffset=3))
        await aeventually(lambda: broker.delivery.arrivals.held_count == 1)

        trace = Trace()
        sys.setprofile(trace)
        try:
            await send()
        finally:
            sys.setprofile(None)
        assert (await asyncio.wait_for(pull, 10)).code == ResponseCode.SUCCESS

    # The kernel answers the pull that it held.
    assert trace.woken_count == (0 if use_kernel else 1)
    assert trace.modules == named_on_the_page(title)
    assert 0 < len(trace.modules) <= MODULES_MAX
