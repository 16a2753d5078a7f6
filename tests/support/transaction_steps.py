"""Steps of a transaction, done by hand over a link: send the half, end it, answer a question about it."""

from kinds_stage import Peer

from pyromq.codes import RequestCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id

GROUP = "payers"
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
#: The default of `transactionCheckInterval`.
INTERVAL_MS = 60_000


async def send_half(client: Peer, body: bytes = b"pay", **properties: str) -> Command:
    return await client.send(
        "orders",
        body,
        queue_id=2,
        group=GROUP,
        sys_flag=4,
        properties={"TRAN_MSG": "true", "PGROUP": GROUP, "WAIT": "true", "TAGS": "paid", **properties},
    )


def end_fields(half: Command, fate: int) -> dict[str, object]:
    ext = half.ext or {}
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": ext["queueOffset"],
        "commitLogOffset": parse_offset_message_id(ext["msgId"]).position,
        "commitOrRollback": fate,
        "fromTransactionCheck": False,
        "msgId": "ID",
    }


async def end(client: Peer, half: Command, fate: int, **more: object) -> Command:
    return await client.request(RequestCode.END_TRANSACTION, end_fields(half, fate) | more)


async def answer_check(client: Peer, check: Command, fate: int) -> Command:
    ext = check.ext or {}
    fields = {
        "producerGroup": GROUP,
        "tranStateTableOffset": ext["tranStateTableOffset"],
        "commitLogOffset": ext["commitLogOffset"],
        "commitOrRollback": fate,
        "fromTransactionCheck": True,
        "msgId": ext["msgId"],
        "transactionId": ext["transactionId"],
    }
    return await client.request(RequestCode.END_TRANSACTION, fields)


async def await_checks(client: Peer, count: int) -> list[Command]:
    def checks() -> list[Command]:
        found = client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)
        return found if len(found) >= count else []

    return await aeventually(checks, what=f"{count} questions about transactions")
