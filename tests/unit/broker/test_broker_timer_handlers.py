from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.timers.timers import Timers
from pyromq.broker.requests.handlers import timer_handlers
from pyromq.broker.requests.handlers.timer_handlers import TimerHandlers
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import RequestCode
from pyromq.config.settings import BrokerSettings, StoreSettings
from pyromq.errors import SystemBusy
from pyromq.net.routes import Request
from pyromq.store.store import MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.command import Command
from pyromq.wire.headers.timer_headers import ListWaiting, RecallMessage
from pyromq.wire.recall_handle import RecallHandle


@pytest.fixture
async def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TimerHandlers]:
    """Those of a broker whose timers never catch up with the log, for they are not started."""
    monkeypatch.setattr(timer_handlers, "PATIENCE_S", 0.01)
    clock, settings = ManualClock(), BrokerSettings()
    stored = StoreSettings(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20)
    store = MessageStore(stored, clock=clock)
    store.open()
    durability = Durability(store, stored, clock)
    topics = TopicTable(tmp_path / "topics.json", settings, clock)
    topics.ensure("orders", queue_count=1)
    await topics.save()
    yield TimerHandlers(
        Timers(store, clock, path=None), store=store, topics=topics, durability=durability, settings=settings
    )
    durability.close()
    store.close()


def asking(header: Any) -> Request[Any]:
    return Request(Command(RequestCode.LIST_WAITING), header, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("header", [ListWaiting(), ListWaiting(max_num=0, with_count=True)])
async def test_who_asks_before_it_is_known_what_waits_is_told_to_ask_again(
    handlers: TimerHandlers, header: ListWaiting
) -> None:
    with pytest.raises(SystemBusy, match="try again"):
        await handlers.list_waiting(asking(header))


async def test_so_is_who_recalls(handlers: TimerHandlers) -> None:
    handle = RecallHandle("orders", "broker-a", 1, "ID").encode()

    with pytest.raises(SystemBusy, match="try again"):
        await handlers.recall(asking(RecallMessage(topic="orders", recall_handle=handle)))


async def test_whether_there_are_timers_is_answered_at_once(handlers: TimerHandlers) -> None:
    answer = await handlers.list_waiting(asking(ListWaiting(max_num=0)))

    assert (answer.code, answer.ext, answer.body) == (0, {}, b"")
