"""Topics that come and go."""

from collections.abc import Awaitable

from pyromq.client.aio.admin import Admin
from pyromq.errors import PyroError
from pyromq.torture.workload.scribe import Scribe, told
from pyromq.torture.workload.workload_plan import WorkloadKind

_DELETED = 0.6


class PassingTopics:
    """A client that creates topics, sends to them, and deletes most of them again."""

    name = "creator"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self._count = 0
        #: Topics whose creation was begun and whose deletion was not.
        self.kept: list[str] = []

    async def main(self) -> None:
        """Create and delete until the load ends."""
        scribe = self._scribe
        settings = scribe.settings(self.name)
        async with (
            Admin(scribe.stage.namesrv_address, settings) as admin,
            scribe.producer(self.name) as producer,
        ):
            while await scribe.pause(WorkloadKind.TOPICS):
                self._count += 1
                topic = f"t-passing-{self._count}"
                self.kept.append(topic)
                if not await self._do("create", topic, admin.create_topic(topic, 1)):
                    continue
                for _ in range(2):
                    await scribe.send(self.name, producer, scribe.draft(WorkloadKind.TOPICS, topic))
                if scribe.chance.random() < _DELETED:
                    self.kept.remove(topic)
                    await self._do("delete", topic, self._delete(admin, topic))
            await scribe.wait_for_end()

    async def _delete(self, admin: Admin, topic: str) -> None:
        """Delete a topic on all masters, also where a name server does not know of it yet.

        A master that no name server knows just now, as its connection broke, is not told, keeps the topic
        and brings it back: then it is not deleted.
        """
        told: set[str] = set()
        for cluster in sorted((await admin.cluster()).cluster_addr_table):
            for one in await admin.delete_topic(topic, cluster):
                if one.failure is not None:
                    raise PyroError(f"{topic} is not deleted: {one.failure}")
                told.add(one.address)
        stage = self._scribe.stage
        masters = told.difference(stage.namesrv_address.split(";"))
        if len(masters) < stage.promises.groups:
            raise PyroError(f"{topic} is not deleted: of {stage.promises.groups} masters {masters} are known")

    async def _do(self, what: str, topic: str, order: Awaitable[object]) -> bool:
        history = self._scribe.history
        history.note(f"topic_{what}", self.name, topic=topic)
        try:
            await order
        except PyroError as error:
            history.note("order_failed", self.name, topic=topic, error=told(error))
            return False
        history.note(f"topic_{what}d", self.name, topic=topic)
        return True
