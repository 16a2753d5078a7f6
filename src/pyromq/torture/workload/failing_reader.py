"""Consumers that fail: the retry ladder, dead letters, and their replay."""

from pyromq.client.aio.dead_letters import DeadLetters
from pyromq.client.dead_letter import ReplayOutcome
from pyromq.errors import PyroError
from pyromq.model import ReceivedMessage
from pyromq.torture.workload.arrangement import FAILERS, FAILING, TRIES_MAX
from pyromq.torture.workload.readers import note_subscription, push_consumer
from pyromq.torture.workload.scribe import Scribe, number_of, told

_REPLAY_S = 4.0


class FailingReader:
    """A push consumer that fails some messages a few times, and some always; a dead letter that comes back
    is done.
    """

    name = "failer"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        #: Given up once already: whatever comes with fewer tries is a replay.
        self._given_up: dict[int, None] = {}
        note_subscription(scribe, FAILERS, FAILING)

    async def main(self) -> None:
        """Read until the run is over."""
        consumer = push_consumer(self._scribe, self.name, FAILERS, self._listen, tries_max=TRIES_MAX)
        async with consumer:
            consumer.subscribe(FAILING)
            await self._scribe.wait_for_end()

    async def _listen(self, message: ReceivedMessage) -> bool:
        number, times = number_of(message.body), message.reconsume_times
        is_replay = number in self._given_up and times < TRIES_MAX
        is_done = is_replay or times >= self._scribe.failures.get(number, 0)
        if not is_done and times >= TRIES_MAX:
            self._given_up[number] = None
        self._scribe.note_delivery(self.name, FAILERS, message, is_done=is_done)
        return is_done


class Replayer:
    """A client that replays dead letters to their group."""

    name = "replayer"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Replay now and then until the load ends."""
        scribe = self._scribe
        async with DeadLetters(scribe.stage.namesrv_address, scribe.settings(self.name)) as letters:
            while await scribe.wait(_REPLAY_S):
                try:
                    await self._replay(letters)
                except PyroError as error:
                    scribe.history.note("replay_failed", self.name, error=told(error))
            await scribe.wait_for_end()

    async def _replay(self, letters: DeadLetters) -> None:
        history = self._scribe.history
        async for result in letters.replay(FAILERS):
            number = number_of(result.letter.message.body)
            if result.outcome is ReplayOutcome.REPLAYED:
                history.note("replayed", self.name, number=number)
            elif result.outcome is ReplayOutcome.FAILED:
                history.note("replay_failed", self.name, number=number, error=str(result.error)[:200])
