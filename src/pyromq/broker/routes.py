"""Every request that the broker answers, on one page.

`refusal_ext` is what a refusal carries besides its code and remark: RocketMQ sends an empty map of fields
where the answer of that request has fields, and none where it has not.
"""

from typing import Any

from pyromq.broker.handlers.access import AccessHandlers
from pyromq.broker.handlers.admin import AdminHandlers
from pyromq.broker.handlers.configuration import ConfigurationHandlers, ResumeHandlers
from pyromq.broker.handlers.operations import OperationHandlers
from pyromq.broker.handlers.presence import PresenceHandlers
from pyromq.broker.handlers.progress import ProgressHandlers
from pyromq.broker.handlers.pull import PullHandlers
from pyromq.broker.handlers.query import QueryHandlers
from pyromq.broker.handlers.relay import RelayHandlers
from pyromq.broker.handlers.reply import ReplyHandlers
from pyromq.broker.handlers.retry import RetryHandlers
from pyromq.broker.handlers.send import SendHandlers
from pyromq.broker.handlers.staging import StagingHandlers
from pyromq.broker.handlers.statistics import StatisticsHandlers
from pyromq.broker.handlers.timers import TimerHandlers
from pyromq.broker.handlers.transaction import TransactionHandlers
from pyromq.codes import RequestCode as Code
from pyromq.codes import ResponseCode
from pyromq.net.routes import Answer, Request, Route
from pyromq.wire.headers import access as access_headers
from pyromq.wire.headers import admin as admin_headers
from pyromq.wire.headers import group as group_headers
from pyromq.wire.headers import offset as offset_headers
from pyromq.wire.headers import operations as operation_headers
from pyromq.wire.headers import pull as pull_headers
from pyromq.wire.headers import query as query_headers
from pyromq.wire.headers import send as send_headers
from pyromq.wire.headers import staging as staging_headers
from pyromq.wire.headers import timers as timer_headers
from pyromq.wire.headers import topic as topic_headers
from pyromq.wire.headers import transaction as transaction_headers


def send_routes(send: SendHandlers) -> list[Route[Any]]:
    """Messages come in."""
    ext = send.common_ext
    return [
        Route(Code.SEND_MESSAGE, send.send, send_headers.SendMessage, refusal_ext=ext),
        Route(Code.SEND_MESSAGE_V2, send.send, send_headers.SendMessageV2, refusal_ext=ext),
        Route(Code.SEND_BATCH_MESSAGE, send.send, send_headers.SendMessageV2, refusal_ext=ext),
    ]


def kind_routes(
    retry: RetryHandlers, transaction: TransactionHandlers, reply: ReplyHandlers
) -> list[Route[Any]]:
    """Messages of special kinds: retried, in transactions, replies."""
    headers, ext = transaction_headers, reply.common_ext
    return [
        Route(Code.CONSUMER_SEND_MSG_BACK, retry.send_back, headers.ConsumerSendMessageBack),
        Route(Code.END_TRANSACTION, transaction.end, headers.EndTransaction),
        Route(Code.SEND_REPLY_MESSAGE, reply.reply, send_headers.SendMessage, refusal_ext=ext),
        Route(Code.SEND_REPLY_MESSAGE_V2, reply.reply, send_headers.SendMessageV2, refusal_ext=ext),
    ]


def timer_routes(timers: TimerHandlers) -> list[Route[Any]]:
    """Messages that wait for their time."""
    headers = timer_headers
    return [
        Route(Code.RECALL_MESSAGE, timers.recall, headers.RecallMessage, refusal_ext=timers.recall_ext),
        Route(Code.LIST_WAITING, timers.list_waiting, headers.ListWaiting, refusal_ext={}),
    ]


def staging_routes(staging: StagingHandlers) -> list[Route[Any]]:
    """Messages that come in where nobody reads them, and are published together."""
    headers = staging_headers
    return [
        Route(Code.OPEN_STAGED_BATCH, staging.open, headers.OpenStagedBatch),
        Route(Code.STAGE_MESSAGES, staging.stage, headers.StageMessages),
        Route(Code.PUBLISH_STAGED, staging.publish, headers.PublishStaged),
        Route(Code.ABORT_STAGED, staging.abort, headers.AbortStaged),
        Route(Code.STAGED_STATUS, staging.status, headers.StagedStatus),
    ]


def pull_routes(pull: PullHandlers) -> list[Route[Any]]:
    """Messages go out."""
    return [
        Route(Code.PULL_MESSAGE, pull.pull, pull_headers.PullMessage, refusal_ext={}),
        Route(Code.LITE_PULL_MESSAGE, pull.pull, pull_headers.PullMessage, refusal_ext={}),
    ]


def group_routes(progress: ProgressHandlers, presence: PresenceHandlers) -> list[Route[Any]]:
    """Who is there, how far they got, and which queues they hold."""
    offset, group = offset_headers, group_headers
    return [
        Route(
            Code.QUERY_CONSUMER_OFFSET,
            progress.query_consumer_offset,
            offset.QueryConsumerOffset,
            refusal_ext={},
        ),
        Route(
            Code.UPDATE_CONSUMER_OFFSET,
            progress.update_consumer_offset,
            offset.UpdateConsumerOffset,
            refusal_ext={},
        ),
        Route(Code.LOCK_BATCH_MQ, progress.lock_batch),
        Route(Code.UNLOCK_BATCH_MQ, progress.unlock_batch),
        Route(Code.GET_QUEUE_LOCKS, progress.queue_locks),
        Route(Code.HEART_BEAT, presence.heartbeat),
        Route(Code.UNREGISTER_CLIENT, presence.unregister, group.UnregisterClient, refusal_ext={}),
        Route(
            Code.GET_CONSUMER_LIST_BY_GROUP,
            presence.consumer_list,
            group.GetConsumerListByGroup,
            refusal_ext={},
        ),
        Route(Code.CHECK_CLIENT_CONFIG, presence.check_client_config),
    ]


def query_routes(query: QueryHandlers) -> list[Route[Any]]:
    """What is stored."""
    offset = offset_headers
    return [
        Route(Code.QUERY_MESSAGE, query.by_key, query_headers.QueryMessage, refusal_ext={}),
        Route(Code.VIEW_MESSAGE_BY_ID, query.by_position, query_headers.ViewMessage),
        Route(Code.SEARCH_OFFSET_BY_TIMESTAMP, query.offset_by_time, offset.SearchOffset, refusal_ext={}),
        Route(Code.GET_MAX_OFFSET, query.max_offset, offset.GetMaxOffset, refusal_ext={}),
        Route(Code.GET_MIN_OFFSET, query.min_offset, offset.GetMinOffset, refusal_ext={}),
        Route(
            Code.GET_EARLIEST_MSG_STORETIME,
            query.earliest_time,
            offset.GetEarliestMessageStoreTime,
            refusal_ext={},
        ),
    ]


def admin_routes(admin: AdminHandlers, relay: RelayHandlers) -> list[Route[Any]]:
    """What operators ask and change."""
    headers, group = admin_headers, group_headers
    return [
        Route(Code.UPDATE_AND_CREATE_TOPIC, admin.update_topic, topic_headers.UpdateAndCreateTopic),
        Route(Code.GET_ALL_TOPIC_CONFIG, admin.all_topics, refusal_ext={}),
        Route(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, admin.system_topics),
        Route(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, admin.all_groups),
        Route(Code.GET_ALL_CONSUMER_OFFSET, admin.all_offsets),
        Route(Code.GET_ALL_DELAY_OFFSET, admin.all_delay_offsets),
        Route(Code.GET_TOPIC_STATS_INFO, admin.topic_stats, headers.GetTopicStats),
        Route(
            Code.GET_CONSUMER_CONNECTION_LIST, admin.consumer_connections, headers.GetConsumerConnectionList
        ),
        Route(
            Code.GET_PRODUCER_CONNECTION_LIST, admin.producer_connections, headers.GetProducerConnectionList
        ),
        Route(Code.GET_CONSUMER_RUNNING_INFO, relay.running_info, group.GetConsumerRunningInfo),
        Route(Code.CONSUME_MESSAGE_DIRECTLY, relay.consume_directly, group.ConsumeMessageDirectly),
        Route(Code.INVOKE_BROKER_TO_RESET_OFFSET, relay.reset_offset, headers.ResetOffset),
        Route(Code.RESET_GROUP_OFFSETS, relay.reset_group_offsets, headers.ResetGroupOffsets),
        Route(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, relay.consumer_status, headers.GetConsumerStatus),
    ]


def access_routes(access: AccessHandlers) -> list[Route[Any]]:
    """Accounts, and who needs none."""
    headers = access_headers
    return [
        Route(Code.UPDATE_AND_CREATE_ACL_CONFIG, access.update, headers.CreateAccessConfig),
        Route(Code.DELETE_ACL_CONFIG, access.delete, headers.DeleteAccessConfig),
        Route(Code.GET_BROKER_CLUSTER_ACL_INFO, access.versions, refusal_ext={}),
        Route(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, access.update_white, headers.UpdateGlobalWhiteAddresses),
        Route(Code.GET_BROKER_CLUSTER_ACL_CONFIG, access.accounts, refusal_ext={}),
    ]


def fixed_role_routes() -> list[Route[Any]]:
    """What only a broker with failover answers: the others are asked too, and say what they are."""
    return [Route(code, _refuse_without_failover) for code in (Code.SWITCH_MASTER, Code.LIST_REPLICAS)]


def _refuse_without_failover(_request: Request[Any]) -> Answer:
    return Answer(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "this broker runs without failover: its role is fixed"
    )


def operation_routes(
    operations: OperationHandlers,
    statistics: StatisticsHandlers,
    configuration: ConfigurationHandlers,
    resume: ResumeHandlers,
) -> list[Route[Any]]:
    """What else operators ask and change: everything that mqadmin has a command for."""
    headers = operation_headers
    return [
        # The broker itself
        Route(Code.GET_BROKER_RUNTIME_INFO, statistics.runtime),
        Route(Code.VIEW_BROKER_STATS_DATA, statistics.rates, headers.ViewBrokerStats),
        Route(Code.GET_BROKER_CONFIG, configuration.get),
        Route(Code.UPDATE_BROKER_CONFIG, configuration.update),
        Route(Code.CLEAN_EXPIRED_CONSUMEQUEUE, operations.clean_queues),
        Route(Code.DELETE_EXPIRED_COMMITLOG, operations.clean_log),
        Route(Code.CLEAN_UNUSED_TOPIC, operations.clean_topics),
        # Topics
        Route(Code.UPDATE_AND_CREATE_TOPIC_LIST, operations.update_topics),
        Route(Code.DELETE_TOPIC_IN_BROKER, operations.delete_topic, headers.DeleteTopic),
        Route(Code.GET_TOPIC_CONFIG, operations.topic_config, headers.GetTopicConfig),
        Route(Code.QUERY_CONSUME_QUEUE, statistics.queue_rows, headers.QueryConsumeQueue),
        # Groups
        Route(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, operations.update_group),
        Route(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, operations.update_groups),
        Route(Code.DELETE_SUBSCRIPTIONGROUP, operations.delete_group, headers.DeleteSubscriptionGroup),
        Route(Code.GET_SUBSCRIPTIONGROUP_CONFIG, operations.group_config, headers.GetSubscriptionGroupConfig),
        Route(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, operations.forbid, headers.UpdateGroupForbidden),
        Route(Code.GET_ALL_PRODUCER_INFO, statistics.all_producers),
        Route(Code.QUERY_TOPIC_CONSUME_BY_WHO, statistics.readers, headers.QueryTopicConsumeByWho),
        Route(Code.QUERY_TOPICS_BY_CONSUMER, statistics.topics_read, headers.QueryTopicsByConsumer),
        Route(
            Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
            statistics.subscription,
            headers.QuerySubscriptionByConsumer,
        ),
        # How far they are
        Route(Code.GET_CONSUME_STATS, statistics.consume_stats, admin_headers.GetConsumeStats),
        Route(Code.GET_BROKER_CONSUME_STATS, statistics.all_consume_stats, headers.GetBrokerConsumeStats),
        Route(Code.QUERY_CONSUME_TIME_SPAN, statistics.time_spans, headers.QueryConsumeTimeSpan),
        Route(Code.QUERY_CORRECTION_OFFSET, statistics.corrections, headers.QueryCorrectionOffset),
        Route(Code.CLONE_GROUP_OFFSET, statistics.clone_offsets, headers.CloneGroupOffset),
        Route(Code.RESUME_CHECK_HALF_MESSAGE, resume.resume, headers.ResumeCheckHalfMessage),
    ]
