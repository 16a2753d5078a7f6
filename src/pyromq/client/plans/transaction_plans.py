"""Transactions: a half message that nobody sees, and its end (RocketMQ 4.9.8: sendMessageInTransaction).

    half message stored ──► execute() ──► END_TRANSACTION: commit │ roll back │ not known
                                                    ▲
    broker asks any member (39) ──► check() ────────┘

The end is told oneway: should it get lost, or the process end, the broker asks later.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.hooks import Ending, after_end
from pyromq.client.steps import Plan, request, tell
from pyromq.codes import RequestCode, ResponseCode, SysFlag
from pyromq.errors import MessageIllegal, NoRoute
from pyromq.model import Message, ReceivedMessage, SendResult, TransactionState
from pyromq.wire import properties as names
from pyromq.wire.headers.transaction_headers import CheckTransactionState, EndTransaction
from pyromq.wire.message_id import parse_offset_message_id

_FATES: Final[Mapping[TransactionState, int]] = {
    TransactionState.COMMIT: SysFlag.TRANSACTION_COMMIT,
    TransactionState.ROLLBACK: SysFlag.TRANSACTION_ROLLBACK,
    TransactionState.UNKNOWN: 0,
}


def half_of(session: Session, message: Message) -> Message:
    """Return a message as the half of a transaction, with the id by which it is known from now on.

    Raises MessageIllegal for a delayed one: RocketMQ would forget the delay without a word.
    """
    if message.is_delayed or names.START_DELIVER_TIME in message.properties:
        raise MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL,
            "a message of a transaction cannot be delayed as well: it is delivered when it is committed",
        )
    marks = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: session.group}
    own = {names.UNIQ_KEY: session.next_message_id()} | message.properties
    return replace(message, properties=own | marks)


def end(
    session: Session,
    half: Message,
    sent: SendResult,
    state: TransactionState,
    error: BaseException | None,
) -> Plan[None]:
    """Tell the broker of a half message how its transaction ended; no answer comes."""
    address = session.routes.master_address(sent.queue.broker_name)
    if address is None:
        raise NoRoute(
            f"the master of {sent.queue.broker_name} is not known any more; it asks for the transaction's "
            "fate when it is back"
        )
    position = parse_offset_message_id(sent.offset_message_id).position
    header = EndTransaction(
        producer_group=session.group,
        tran_state_table_offset=sent.queue_offset,
        commit_log_offset=position,
        commit_or_rollback=_FATES[state],
        msg_id=sent.message_id,
        transaction_id=sent.transaction_id,
    )
    yield from _tell(session, address, header, error)
    _tell_hooks(session, half, address, header, state)


def answer_check(
    session: Session,
    address: str,
    asked: CheckTransactionState,
    message: ReceivedMessage,
    state: TransactionState,
    error: BaseException | None,
) -> Plan[None]:
    """Answer the question of the broker at `address` for a transaction's fate."""
    header = EndTransaction(
        producer_group=session.group,
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=_FATES[state],
        from_transaction_check=True,
        msg_id=message.message_id,
        transaction_id=asked.transaction_id,
    )
    yield from _tell(session, address, header, error)
    _tell_hooks(session, message, address, header, state)


def _tell_hooks(
    session: Session,
    message: Message | ReceivedMessage,
    address: str,
    header: EndTransaction,
    state: TransactionState,
) -> None:
    if session.send_hooks:
        ending = Ending(
            group=session.group,
            message=message,
            message_id=header.msg_id or "",
            broker_address=address,
            state=state,
            transaction_id=header.transaction_id,
            was_asked=bool(header.from_transaction_check),
            namespace=session.settings.namespace,
        )
        after_end(session.send_hooks, ending)


def _tell(session: Session, address: str, header: EndTransaction, error: BaseException | None) -> Plan[None]:
    command = request(RequestCode.END_TRANSACTION, header)
    if error is not None:
        command.remark = f"{type(error).__name__}: {error}"
    yield from tell(address, command, session.settings.send_msg_timeout / 1_000)
