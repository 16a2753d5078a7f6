import asyncio
from pathlib import Path
from typing import cast

from pyromq.broker.registration import Registration
from pyromq.broker.registration_targets import RegistrationTargets
from pyromq.broker.replication.standing import Standing
from pyromq.broker.topics.topics import TopicTable
from pyromq.config.settings import BrokerSettings
from pyromq.net.links import Links
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command


class SlowLinks:
    """Links to a name server that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Command] = []
        self.may_answer = asyncio.Semaphore(0)

    async def request(self, address: str, command: Command, timeout_s: float) -> Command:
        self.asked.append(command)
        await self.may_answer.acquire()
        return Command(0)


def registration(links: SlowLinks, folder: Path) -> Registration:
    settings = BrokerSettings(namesrv_addr="127.0.0.1:1")
    topics = TopicTable(folder / "topics.json", settings, ManualClock())
    lease = Standing().lease
    return Registration(
        cast(Links, links),
        topics,
        settings,
        name_servers=RegistrationTargets(settings),
        address="a:1",
        ha_address="a:2",
        lease=lease,
    )


async def test_changes_that_come_during_a_registration_share_the_next(tmp_path: Path) -> None:
    links = SlowLinks()
    told = registration(links, tmp_path)
    told.register_soon()
    await aeventually(lambda: len(links.asked) == 1)
    for _ in range(1000):
        told.register_soon()
    for _ in range(9):
        links.may_answer.release()
    await aeventually(lambda: len(links.asked) == 2)
    await told.register()
    assert len(links.asked) == 3


async def test_who_awaits_a_registration_does_not_wait_for_the_pause_after_the_last(tmp_path: Path) -> None:
    links = SlowLinks()
    told = registration(links, tmp_path)
    told.register_soon()
    await aeventually(lambda: len(links.asked) == 1)
    told.register_soon()
    awaited = asyncio.create_task(told.register())
    for _ in range(9):
        links.may_answer.release()
    await awaited
    assert len(links.asked) == 2
