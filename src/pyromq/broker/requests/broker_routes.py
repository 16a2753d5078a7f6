"""Every request that the broker answers, and what is to be known of it, on one page: the table of contents.

Each route says who handles it, its header and its answer's, and its facts (`route_facts.py`): who may send
it, whether it writes, whether a slave answers it, how long its body may be. Most are one of four kinds:

    write   stores messages: held back without enough replicas, during a hand-over, on a full disk; no slave's
    read    needs a permission, and changes nothing but who is there and how far they are
    look    tells how things are, to any account
    order   is for administrators

`refusal_ext` is what a refusal carries besides its code and remark: RocketMQ sends an empty map of fields
where the answer of that request has fields, and none where it has not.
"""

from typing import TYPE_CHECKING, Any, Final

from pyromq.broker.access.needs import (
    Anybody,
    acknowledges,
    administrator,
    asks_for_share,
    ends_message_at,
    is_in,
    joins,
    locks,
    pops,
    publishes,
    reads,
    reads_as,
    reads_message_at,
    reads_or_administers,
    takes_back,
)
from pyromq.broker.requests.handlers.access_handlers import AccessHandlers
from pyromq.broker.requests.handlers.admin_handlers import AdminHandlers
from pyromq.broker.requests.handlers.assignment_handlers import AssignmentHandlers
from pyromq.broker.requests.handlers.configuration_handlers import ConfigurationHandlers, ResumeHandlers
from pyromq.broker.requests.handlers.operation_handlers import OperationHandlers
from pyromq.broker.requests.handlers.pop_ack_handlers import NOT_CHANGED, PopAckHandlers
from pyromq.broker.requests.handlers.pop_handlers import (
    NOT_NOTIFIED,
    NOTHING_HELD,
    NOTHING_POPPED,
    PopHandlers,
)
from pyromq.broker.requests.handlers.presence_handlers import PresenceHandlers
from pyromq.broker.requests.handlers.progress_handlers import ProgressHandlers
from pyromq.broker.requests.handlers.pull_handlers import PullHandlers
from pyromq.broker.requests.handlers.query_handlers import QueryHandlers
from pyromq.broker.requests.handlers.relay_handlers import RelayHandlers
from pyromq.broker.requests.handlers.reply_handlers import ReplyHandlers
from pyromq.broker.requests.handlers.retry_handlers import RetryHandlers
from pyromq.broker.requests.handlers.send_handlers import SendHandlers
from pyromq.broker.requests.handlers.staging_handlers import StagingHandlers
from pyromq.broker.requests.handlers.statistics_handlers import StatisticsHandlers
from pyromq.broker.requests.handlers.timer_handlers import TimerHandlers
from pyromq.broker.requests.handlers.transaction_handlers import TransactionHandlers
from pyromq.broker.requests.route_facts import BrokerRoute, OnSlave, look, order, read, write
from pyromq.codes import RequestCode as Code
from pyromq.codes import ResponseCode
from pyromq.net.routes import Answer, BodyLimit, Request
from pyromq.wire.headers import (
    access_headers,
    admin_headers,
    group_headers,
    offset_headers,
    operation_headers,
    pop_headers,
    pull_headers,
    query_headers,
    replica_headers,
    send_headers,
    staging_headers,
    timer_headers,
    topic_headers,
    transaction_headers,
)
from pyromq.wire.headers.namesrv_headers import NoFields

if TYPE_CHECKING:
    from pyromq.broker.failover.reports import ReplicaHandlers

Routes = list[BrokerRoute[Any]]

_FIELDS_ONLY, _NAMES, _MESSAGES = BodyLimit.FIELDS_ONLY, BodyLimit.NAMES, BodyLimit.MESSAGES
_ANSWERS, _CHANGES_NOTHING = OnSlave.ANSWERS, OnSlave.CHANGES_NOTHING
_STAGED: Final = Anybody(
    "a staged query belongs to the account that opened it: `staging_handlers.py` refuses others"
)


def send_routes(send: SendHandlers) -> Routes:
    """Return the routes of sends."""
    h, answer, ext = send_headers, send_headers.SendMessageAnswer, send.common_ext
    topic, t = publishes("topic"), publishes("b")
    return [
        write(Code.SEND_MESSAGE, send.send, h.SendMessage, answer, needs=topic, refusal_ext=ext),
        write(Code.SEND_MESSAGE_V2, send.send, h.SendMessageV2, answer, needs=t, refusal_ext=ext),
        write(Code.SEND_BATCH_MESSAGE, send.send, h.SendMessageV2, answer, needs=t, refusal_ext=ext),
    ]


def kind_routes(retry: RetryHandlers, transaction: TransactionHandlers, reply: ReplyHandlers) -> Routes:
    """Return the routes of special kinds of messages: retries, transactions, replies."""
    h, answer, ext = transaction_headers, send_headers.SendMessageAnswer, reply.common_ext
    return [
        write(
            Code.CONSUMER_SEND_MSG_BACK,
            retry.send_back,
            h.ConsumerSendMessageBack,
            needs=takes_back("offset", "group"),
            on_slave=OnSlave.TAKES_NOTHING_BACK,
        ),
        write(
            Code.END_TRANSACTION,
            transaction.end,
            h.EndTransaction,
            needs=ends_message_at("commitLogOffset"),
            on_slave=OnSlave.ENDS_NO_TRANSACTIONS,
        ),
        write(
            Code.SEND_REPLY_MESSAGE,
            reply.reply,
            send_headers.SendMessage,
            answer,
            needs=publishes("topic"),
            refusal_ext=ext,
        ),
        write(
            Code.SEND_REPLY_MESSAGE_V2,
            reply.reply,
            send_headers.SendMessageV2,
            answer,
            needs=publishes("b"),
            refusal_ext=ext,
        ),
    ]


def timer_routes(timers: TimerHandlers) -> Routes:
    """Return the routes of timed messages."""
    h = timer_headers
    return [
        write(
            Code.RECALL_MESSAGE,
            timers.recall,
            h.RecallMessage,
            h.RecallMessageAnswer,
            needs=publishes("topic"),
            refusal_ext=timers.recall_ext,
        ),
        read(
            Code.LIST_WAITING,
            timers.list_waiting,
            h.ListWaiting,
            h.ListWaitingAnswer,
            needs=reads_or_administers("topic"),
            # Only a master knows what waits.
            on_slave=OnSlave.TAKES_NO_MESSAGES,
            refusal_ext={},
        ),
    ]


def staging_routes(staging: StagingHandlers | None) -> Routes:
    """Return the routes of staged messages, which nobody reads until published; a slave has no handlers."""
    h, answer, s, none = staging_headers, staging_headers.StagedAnswer, staging, _refuse_on_slave
    return [
        write(
            Code.OPEN_STAGED_BATCH, none if s is None else s.open, h.OpenStagedBatch, answer, needs=_STAGED
        ),
        write(
            Code.STAGE_MESSAGES,
            none if s is None else s.stage,
            h.StageMessages,
            answer,
            needs=publishes("topic"),
        ),
        write(Code.PUBLISH_STAGED, none if s is None else s.publish, h.PublishStaged, answer, needs=_STAGED),
        write(Code.ABORT_STAGED, none if s is None else s.abort, h.AbortStaged, answer, needs=_STAGED),
        read(
            Code.STAGED_STATUS,
            none if s is None else s.status,
            h.StagedStatus,
            answer,
            needs=_STAGED,
            # Only a master knows what is staged.
            on_slave=OnSlave.TAKES_NO_MESSAGES,
        ),
    ]


def _refuse_on_slave(_request: Request[Any]) -> Answer:
    """Refuse a request that `on_slave` refuses before already; the client asks again, at another broker."""
    return Answer(ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now: this broker is a slave")


def pull_routes(pull: PullHandlers) -> Routes:
    """Return the routes of pulls."""
    return [
        BrokerRoute(
            code,
            pull.pull,
            pull_headers.PullMessage,
            pull_headers.PullMessageAnswer,
            body=_FIELDS_ONLY,
            holds=True,
            needs=reads_as("topic", "consumerGroup"),
            writes=False,
            on_slave=_ANSWERS,
            refusal_ext={},
        )
        for code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE)
    ]


def group_routes(progress: ProgressHandlers, presence: PresenceHandlers) -> Routes:
    """Return the routes of consumer offsets, group members and locked queues."""
    offset, group, member = offset_headers, group_headers, is_in("consumerGroup")
    return [
        look(
            Code.QUERY_CONSUMER_OFFSET,
            progress.query_consumer_offset,
            offset.QueryConsumerOffset,
            offset.QueryConsumerOffsetAnswer,
            refusal_ext={},
        ),
        read(
            Code.UPDATE_CONSUMER_OFFSET,
            progress.update_consumer_offset,
            offset.UpdateConsumerOffset,
            offset.UpdateConsumerOffsetAnswer,
            needs=reads_as("topic", "consumerGroup"),
            refusal_ext={},
        ),
        read(Code.LOCK_BATCH_MQ, progress.lock_batch, needs=locks, body=_NAMES),
        read(Code.UNLOCK_BATCH_MQ, progress.unlock_batch, needs=locks, body=_NAMES),
        look(Code.GET_QUEUE_LOCKS, progress.queue_locks),
        read(Code.HEART_BEAT, presence.heartbeat, needs=joins, body=_NAMES),
        read(
            Code.UNREGISTER_CLIENT,
            presence.unregister,
            group.UnregisterClient,
            group.UnregisterClientAnswer,
            needs=member,
            refusal_ext={},
        ),
        read(
            Code.GET_CONSUMER_LIST_BY_GROUP,
            presence.consumer_list,
            group.GetConsumerListByGroup,
            group.GetConsumerListByGroupAnswer,
            needs=member,
            refusal_ext={},
        ),
        read(
            Code.CHECK_CLIENT_CONFIG,
            presence.check_client_config,
            needs=Anybody("it only says whether an expression reads"),
            body=_NAMES,
        ),
    ]


def pop_routes(pop: PopHandlers, acks: PopAckHandlers) -> Routes:
    """Return the routes of messages that are popped and acknowledged one by one; a master has them."""
    h, popping = pop_headers, pops("topic", "consumerGroup")
    return [
        BrokerRoute(
            Code.POP_MESSAGE,
            pop.pop,
            h.PopMessage,
            h.PopMessageAnswer,
            body=_FIELDS_ONLY,
            holds=True,
            needs=popping,
            writes=False,
            on_slave=OnSlave.TAKES_NO_MESSAGES,
            refusal_ext=NOTHING_POPPED,
        ),
        read(
            Code.PEEK_MESSAGE,
            pop.peek,
            h.PeekMessage,
            h.PopMessageAnswer,
            needs=popping,
            on_slave=OnSlave.TAKES_NO_MESSAGES,
            refusal_ext=NOTHING_POPPED,
        ),
        BrokerRoute(
            Code.NOTIFICATION,
            pop.notification,
            h.PopNotification,
            h.PopNotificationAnswer,
            body=_FIELDS_ONLY,
            holds=True,
            needs=popping,
            writes=False,
            on_slave=OnSlave.TAKES_NO_MESSAGES,
            refusal_ext=NOT_NOTIFIED,
        ),
        read(
            Code.POLLING_INFO,
            pop.held_count,
            h.CountHeldPops,
            h.HeldPopCount,
            needs=popping,
            on_slave=OnSlave.TAKES_NO_MESSAGES,
            refusal_ext=NOTHING_HELD,
        ),
        *_pop_ack_routes(acks),
    ]


def _pop_ack_routes(acks: PopAckHandlers) -> Routes:
    """Return the routes of messages that were popped; on a full disk, too, a group finishes what it has."""
    h, popping, masters = pop_headers, pops("topic", "consumerGroup"), OnSlave.TAKES_NO_MESSAGES
    return [
        read(Code.ACK_MESSAGE, acks.ack, h.AckMessage, needs=popping, on_slave=masters),
        read(Code.BATCH_ACK_MESSAGE, acks.ack_many, needs=acknowledges, on_slave=masters, body=_NAMES),
        read(
            Code.CHANGE_MESSAGE_INVISIBLETIME,
            acks.change,
            h.ChangeMessageInvisibleTime,
            h.ChangeMessageInvisibleTimeAnswer,
            needs=popping,
            on_slave=masters,
            refusal_ext=NOT_CHANGED,
        ),
    ]


def assignment_routes(assignment: AssignmentHandlers) -> Routes:
    """Return the routes of members that ask for their share of queues, and of how they consume."""
    return [
        read(Code.QUERY_ASSIGNMENT, assignment.query_assignment, needs=asks_for_share, body=_NAMES),
        order(
            Code.SET_MESSAGE_REQUEST_MODE,
            assignment.set_request_mode,
            on_slave=_CHANGES_NOTHING,
            body=_NAMES,
        ),
        look(Code.GET_ALL_MESSAGE_REQUEST_MODE, assignment.all_request_modes),
    ]


def query_routes(query: QueryHandlers) -> Routes:
    """Return the routes of queries for stored messages and offsets."""
    h, offset = query_headers, offset_headers
    return [
        read(
            Code.QUERY_MESSAGE,
            query.by_key,
            h.QueryMessage,
            h.QueryMessageAnswer,
            needs=reads("topic"),
            refusal_ext={},
        ),
        read(Code.VIEW_MESSAGE_BY_ID, query.by_position, h.ViewMessage, needs=reads_message_at("offset")),
        look(
            Code.SEARCH_OFFSET_BY_TIMESTAMP,
            query.offset_by_time,
            offset.SearchOffset,
            offset.SearchOffsetAnswer,
            refusal_ext={},
        ),
        look(
            Code.GET_MAX_OFFSET,
            query.max_offset,
            offset.GetMaxOffset,
            offset.GetMaxOffsetAnswer,
            refusal_ext={},
        ),
        look(
            Code.GET_MIN_OFFSET,
            query.min_offset,
            offset.GetMinOffset,
            offset.GetMinOffsetAnswer,
            refusal_ext={},
        ),
        look(
            Code.GET_EARLIEST_MSG_STORETIME,
            query.earliest_time,
            offset.GetEarliestMessageStoreTime,
            offset.GetEarliestMessageStoreTimeAnswer,
            refusal_ext={},
        ),
    ]


def admin_routes(admin: AdminHandlers, relay: RelayHandlers) -> Routes:
    """Return the routes of administration: topics, tables, statistics, and requests that clients answer."""
    h, group = admin_headers, group_headers
    return [
        order(
            Code.UPDATE_AND_CREATE_TOPIC,
            admin.update_topic,
            topic_headers.UpdateAndCreateTopic,
            on_slave=_CHANGES_NOTHING,
        ),
        look(Code.GET_ALL_TOPIC_CONFIG, admin.all_topics, None, NoFields, refusal_ext={}),
        look(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, admin.system_topics),
        look(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, admin.all_groups),
        look(Code.GET_ALL_CONSUMER_OFFSET, admin.all_offsets),
        look(Code.GET_ALL_DELAY_OFFSET, admin.all_delay_offsets),
        look(Code.GET_TOPIC_STATS_INFO, admin.topic_stats, h.GetTopicStats),
        look(Code.GET_CONSUMER_CONNECTION_LIST, admin.consumer_connections, h.GetConsumerConnectionList),
        look(Code.GET_PRODUCER_CONNECTION_LIST, admin.producer_connections, h.GetProducerConnectionList),
        look(Code.GET_CONSUMER_RUNNING_INFO, relay.running_info, group.GetConsumerRunningInfo),
        order(
            Code.CONSUME_MESSAGE_DIRECTLY,
            relay.consume_directly,
            group.ConsumeMessageDirectly,
            on_slave=_ANSWERS,
            body=_MESSAGES,
        ),
        order(Code.INVOKE_BROKER_TO_RESET_OFFSET, relay.reset_offset, h.ResetOffset, on_slave=_ANSWERS),
        order(
            Code.RESET_GROUP_OFFSETS,
            relay.reset_group_offsets,
            h.ResetGroupOffsets,
            on_slave=_ANSWERS,
            body=_NAMES,
        ),
        look(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, relay.consumer_status, h.GetConsumerStatus),
    ]


def access_routes(access: AccessHandlers) -> Routes:
    """Return the routes of accounts and of the white list of addresses."""
    h = access_headers
    return [
        order(Code.UPDATE_AND_CREATE_ACL_CONFIG, access.update, h.CreateAccessConfig, on_slave=_ANSWERS),
        order(Code.DELETE_ACL_CONFIG, access.delete, h.DeleteAccessConfig, on_slave=_ANSWERS),
        order(
            Code.GET_BROKER_CLUSTER_ACL_INFO,
            access.versions,
            None,
            h.AccessVersionAnswer,
            on_slave=_ANSWERS,
            refusal_ext={},
        ),
        order(
            Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            access.update_white,
            h.UpdateGlobalWhiteAddresses,
            on_slave=_ANSWERS,
        ),
        order(Code.GET_BROKER_CLUSTER_ACL_CONFIG, access.accounts, on_slave=_ANSWERS, refusal_ext={}),
    ]


def replica_routes(replicas: "ReplicaHandlers | None") -> Routes:
    """Return the routes of the replica group; a broker without failover answers that its role is fixed."""
    h, fixed = replica_headers, _refuse_without_failover
    switch = fixed if replicas is None else replicas.switch
    return [
        order(Code.SWITCH_MASTER, switch, h.SwitchMaster, h.SwitchMasterAnswer, on_slave=_ANSWERS),
        look(Code.LIST_REPLICAS, fixed if replicas is None else replicas.list_replicas),
    ]


def _refuse_without_failover(_request: Request[Any]) -> Answer:
    return Answer(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "this broker runs without failover: its role is fixed"
    )


def operation_routes(
    operations: OperationHandlers,
    statistics: StatisticsHandlers,
    configuration: ConfigurationHandlers,
    resume: ResumeHandlers,
) -> Routes:
    """Return the other routes of administration: all the requests that mqadmin has a command for."""
    return [
        *_own_routes(operations, statistics, configuration),
        *_topic_routes(operations, statistics),
        *_group_config_routes(operations, statistics),
        *_progress_routes(statistics, resume),
    ]


def _own_routes(
    operations: OperationHandlers, statistics: StatisticsHandlers, configuration: ConfigurationHandlers
) -> Routes:
    """Return the routes of the broker's own figures, settings and clean-ups."""
    h = operation_headers
    return [
        look(Code.GET_BROKER_RUNTIME_INFO, statistics.runtime),
        look(Code.VIEW_BROKER_STATS_DATA, statistics.rates, h.ViewBrokerStats),
        look(Code.GET_BROKER_CONFIG, configuration.get, None, h.GetBrokerConfigAnswer),
        order(Code.UPDATE_BROKER_CONFIG, configuration.update, on_slave=_ANSWERS, body=_NAMES),
        order(Code.CLEAN_EXPIRED_CONSUMEQUEUE, operations.clean_queues, on_slave=_ANSWERS),
        order(Code.DELETE_EXPIRED_COMMITLOG, operations.clean_log, on_slave=_ANSWERS),
        order(Code.CLEAN_UNUSED_TOPIC, operations.clean_topics, on_slave=_ANSWERS),
    ]


def _topic_routes(operations: OperationHandlers, statistics: StatisticsHandlers) -> Routes:
    h = operation_headers
    return [
        order(
            Code.UPDATE_AND_CREATE_TOPIC_LIST,
            operations.update_topics,
            on_slave=_CHANGES_NOTHING,
            body=_NAMES,
        ),
        order(Code.DELETE_TOPIC_IN_BROKER, operations.delete_topic, h.DeleteTopic, on_slave=_CHANGES_NOTHING),
        look(Code.GET_TOPIC_CONFIG, operations.topic_config, h.GetTopicConfig),
        look(Code.QUERY_CONSUME_QUEUE, statistics.queue_rows, h.QueryConsumeQueue),
    ]


def _group_config_routes(operations: OperationHandlers, statistics: StatisticsHandlers) -> Routes:
    h = operation_headers
    return [
        order(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            operations.update_group,
            on_slave=_CHANGES_NOTHING,
            body=_NAMES,
        ),
        order(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            operations.update_groups,
            on_slave=_CHANGES_NOTHING,
            body=_NAMES,
        ),
        order(
            Code.DELETE_SUBSCRIPTIONGROUP,
            operations.delete_group,
            h.DeleteSubscriptionGroup,
            on_slave=_CHANGES_NOTHING,
        ),
        look(Code.GET_SUBSCRIPTIONGROUP_CONFIG, operations.group_config, h.GetSubscriptionGroupConfig),
        order(
            Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
            operations.forbid,
            h.UpdateGroupForbidden,
            on_slave=_CHANGES_NOTHING,
        ),
        look(Code.GET_ALL_PRODUCER_INFO, statistics.all_producers),
        look(Code.QUERY_TOPIC_CONSUME_BY_WHO, statistics.readers, h.QueryTopicConsumeByWho),
        look(Code.QUERY_TOPICS_BY_CONSUMER, statistics.topics_read, h.QueryTopicsByConsumer),
        look(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, statistics.subscription, h.QuerySubscriptionByConsumer),
    ]


def _progress_routes(statistics: StatisticsHandlers, resume: ResumeHandlers) -> Routes:
    """Return the routes of groups' progress, and the one that resumes the check of a half message."""
    h = operation_headers
    return [
        look(Code.GET_CONSUME_STATS, statistics.consume_stats, admin_headers.GetConsumeStats),
        look(Code.GET_BROKER_CONSUME_STATS, statistics.all_consume_stats, h.GetBrokerConsumeStats),
        look(Code.QUERY_CONSUME_TIME_SPAN, statistics.time_spans, h.QueryConsumeTimeSpan),
        look(Code.QUERY_CORRECTION_OFFSET, statistics.corrections, h.QueryCorrectionOffset),
        order(
            Code.CLONE_GROUP_OFFSET, statistics.clone_offsets, h.CloneGroupOffset, on_slave=_CHANGES_NOTHING
        ),
        write(
            Code.RESUME_CHECK_HALF_MESSAGE,
            resume.resume,
            h.ResumeCheckHalfMessage,
            needs=administrator,
            body=_FIELDS_ONLY,
        ),
    ]
