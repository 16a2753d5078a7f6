"""The awaitable client for dead letters."""

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.operations.dead_letter_operations import DeadLetterOperations


class DeadLetters(DeadLetterOperations, AwaitableFace):
    """Reads the messages that groups gave up, and replays them.

        async with DeadLetters("127.0.0.1:9876") as letters:
            async for result in letters.replay("billing", DeadLetterFilter(tag="paid"), rate=50):
                print(result.letter.message_id, result.outcome, result.error or result.offset_message_id)

    A dead letter that was replayed before is skipped, by whoever and whenever it was; so a replay that was
    cut off is begun again and goes on where it ended. Works on Apache's brokers too.
    """
