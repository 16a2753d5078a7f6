"""A broker that sends itself timed messages and delivers them, run by a test that kills it.

    python timer_dies.py FOLDER FIRST COUNT

Prints «sent N» for each message that was answered, «delivered N» with how many are in their topic, and
«waiting N» with how many wait. A line on its input makes it stop in order.
"""

import asyncio
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from kinds_stage import Peer, Stage, running_real_stage

from pyromq.codes import RequestCode

DELAY_MS_MAX = 300


async def main(folder: Path, first: int, count: int) -> None:
    """Send, and tell of deliveries until told to stop."""
    async with running_real_stage(folder, mapped_file_size_commit_log=64 * 1024) as stage:
        telling = asyncio.create_task(_tell(stage))
        await _send(stage.connect(), first, count)
        await asyncio.to_thread(sys.stdin.readline)
        telling.cancel()


async def _send(client: Peer, first: int, count: int) -> None:
    chance = random.Random(first)
    for number in range(first, first + count):
        delay_ms = chance.randrange(1, DELAY_MS_MAX)
        answer = await client.send("orders", b"%d" % number, properties={"TIMER_DELAY_MS": str(delay_ms)})
        if answer.code == 0:
            print("sent", number, flush=True)


async def _tell(stage: Stage) -> None:
    client = stage.connect()
    while True:
        answer = await client.request(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
        print("delivered", (answer.ext or {}).get("offset", 0), flush=True)
        answer = await client.request(RequestCode.LIST_WAITING, {"maxNum": 0, "withCount": True})
        print("waiting", (answer.ext or {})["waitingCount"], flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
