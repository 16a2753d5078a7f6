"""Members that pop: one with a listener, and one that receives, acknowledges, forgets and gives back."""

from pyromq.client.aio.push_consumer import PushConsumer
from pyromq.client.aio.simple_consumer import SimpleConsumer
from pyromq.client.push.delivery import Delivery
from pyromq.errors import PyroError
from pyromq.model import ConsumeFrom, ReceivedMessage
from pyromq.torture.history import Json
from pyromq.torture.workload.arrangement import POPPED, POPPERS
from pyromq.torture.workload.readers import note_subscription
from pyromq.torture.workload.scribe import Scribe, told
from pyromq.wire.properties import POP_CK
from pyromq.wire.receipt_handle import decode_receipt_handle

#: Milliseconds that a received message is invisible, and one that is given back; and that a receive waits.
INVISIBLE_MS = 4_000
GIVEN_BACK_MS = 1_500
_WAIT_MS = 1_000
#: Parts of the received messages that are forgotten, so that they come again by themselves, and given back.
_FORGOTTEN, _GIVEN_BACK = 0.15, 0.15
_COUNT = 8
#: Seconds in which the member with a listener pops, between pauses.
_TURN_S = 2.0


def popped_from(message: ReceivedMessage) -> dict[str, Json]:
    """Return the queue that a message was popped from: that of a retry topic shows the first topic's name."""
    text = message.properties.get(POP_CK)
    if text is None:
        return {}
    handle = decode_receipt_handle(text)
    topic = handle.real_topic(POPPERS, message.topic)
    return {"place": f"{topic}/{handle.broker_name}/{handle.queue_id}", "offset": handle.offset}


class Popper:
    """A push consumer that pops; some messages fail once."""

    name = "popper"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        note_subscription(scribe, POPPERS, POPPED)

    async def main(self) -> None:
        """Read until the run is over."""
        scribe = self._scribe
        consumer = PushConsumer(
            POPPERS,
            scribe.stage.namesrv_address,
            mode="pop",
            listener=self._listen,
            settings=scribe.settings(
                self.name, pop_invisible_time=5_000, pop_batch_nums=4, push_suspend_max_time_millis=1_000
            ),
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        async with consumer:
            consumer.subscribe(POPPED)
            while await scribe.wait(_TURN_S):
                # The other member's turn: a pop that is held gets every message first.
                consumer.suspend()
                await scribe.wait(2 * _TURN_S)
                consumer.resume()
            await scribe.wait_for_end()

    async def _listen(self, message: ReceivedMessage, delivery: Delivery) -> bool:
        is_done = bool(message.reconsume_times) or message.queue_offset % 5 != 2
        # Nobody knows until when it is this member's: the client asks for more time by itself.
        place = popped_from(message)
        self._scribe.note_delivery(self.name, POPPERS, message, is_done=is_done, until_s=None, **place)
        delivery.delay_level = 1
        return is_done


class Picker:
    """A simple consumer that acknowledges most messages, forgets some, and gives some back."""

    name = "picker"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Read until the run is over; from the end of the load on, acknowledge everything."""
        scribe = self._scribe
        consumer = SimpleConsumer(
            POPPERS,
            scribe.stage.namesrv_address,
            scribe.settings(self.name),
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        consumer.subscribe(POPPED)
        async with consumer:
            while not scribe.is_over:
                try:
                    messages = await consumer.receive(_COUNT, INVISIBLE_MS, wait_ms=_WAIT_MS)
                except PyroError as error:
                    scribe.history.note("receive_failed", self.name, error=told(error))
                    await scribe.wait(_WAIT_MS / 1_000)
                    continue
                for message in messages:
                    await self._use(consumer, message)

    async def _use(self, consumer: SimpleConsumer, message: ReceivedMessage) -> None:
        scribe, chance = self._scribe, self._scribe.chance.random()
        until_s = scribe.stage.now_s() + INVISIBLE_MS / 1_000
        place = popped_from(message)
        number = scribe.note_delivery(self.name, POPPERS, message, is_done=False, until_s=until_s, **place)
        if chance < _FORGOTTEN and not scribe.is_stopped:
            return
        try:
            if chance < _FORGOTTEN + _GIVEN_BACK and not scribe.is_stopped:
                scribe.history.note("given_back", self.name, group=POPPERS, number=number)
                await consumer.change_invisible_duration(message, GIVEN_BACK_MS)
                return
            # From here on it may be over, whatever becomes of the answer.
            scribe.history.note("ending", self.name, group=POPPERS, number=number)
            await consumer.ack(message)
        except PyroError as error:
            scribe.history.note("not_ended", self.name, number=number, error=told(error))
            return
        scribe.history.note(
            "ended",
            self.name,
            group=POPPERS,
            number=number,
            popped_at_s=until_s - INVISIBLE_MS / 1_000,
            until_s=until_s,
            **place,
        )
