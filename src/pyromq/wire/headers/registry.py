"""Which headers belong to which code.

An answer of None carries no map of fields. An answer type without fields carries an empty map: RocketMQ
4.9.8 sends `"extFields":{}` then, and so do we.
"""

from types import MappingProxyType
from typing import Final, NamedTuple

from pyromq.codes import RequestCode
from pyromq.wire.header import Header
from pyromq.wire.headers import (
    admin,
    group,
    namesrv,
    offset,
    operations,
    pull,
    query,
    send,
    staging,
    timers,
    topic,
    transaction,
)


class Headers(NamedTuple):
    """The header of a request and of its answer."""

    request: type[Header]
    answer: type[Header] | None = None


_LIST = Headers(namesrv.NoFields)

HEADERS: Final = MappingProxyType[RequestCode, Headers](
    {
        RequestCode.SEND_MESSAGE: Headers(send.SendMessage, send.SendMessageAnswer),
        RequestCode.SEND_MESSAGE_V2: Headers(send.SendMessageV2, send.SendMessageAnswer),
        RequestCode.SEND_BATCH_MESSAGE: Headers(send.SendMessageV2, send.SendMessageAnswer),
        RequestCode.SEND_REPLY_MESSAGE: Headers(send.SendMessage, send.SendMessageAnswer),
        RequestCode.SEND_REPLY_MESSAGE_V2: Headers(send.SendMessageV2, send.SendMessageAnswer),
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: Headers(send.PushReplyMessage),
        RequestCode.PULL_MESSAGE: Headers(pull.PullMessage, pull.PullMessageAnswer),
        RequestCode.LITE_PULL_MESSAGE: Headers(pull.PullMessage, pull.PullMessageAnswer),
        RequestCode.QUERY_MESSAGE: Headers(query.QueryMessage, query.QueryMessageAnswer),
        RequestCode.VIEW_MESSAGE_BY_ID: Headers(query.ViewMessage),
        RequestCode.QUERY_CONSUMER_OFFSET: Headers(
            offset.QueryConsumerOffset, offset.QueryConsumerOffsetAnswer
        ),
        RequestCode.UPDATE_CONSUMER_OFFSET: Headers(
            offset.UpdateConsumerOffset, offset.UpdateConsumerOffsetAnswer
        ),
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Headers(offset.SearchOffset, offset.SearchOffsetAnswer),
        RequestCode.GET_MAX_OFFSET: Headers(offset.GetMaxOffset, offset.GetMaxOffsetAnswer),
        RequestCode.GET_MIN_OFFSET: Headers(offset.GetMinOffset, offset.GetMinOffsetAnswer),
        RequestCode.GET_EARLIEST_MSG_STORETIME: Headers(
            offset.GetEarliestMessageStoreTime, offset.GetEarliestMessageStoreTimeAnswer
        ),
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET: Headers(offset.ResetConsumerClientOffset),
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: Headers(offset.GetConsumerStatusFromClient),
        RequestCode.UPDATE_AND_CREATE_TOPIC: Headers(topic.UpdateAndCreateTopic),
        RequestCode.HEART_BEAT: Headers(group.HeartBeat),
        RequestCode.UNREGISTER_CLIENT: Headers(group.UnregisterClient, group.UnregisterClientAnswer),
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: Headers(
            group.GetConsumerListByGroup, group.GetConsumerListByGroupAnswer
        ),
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Headers(group.NotifyConsumerIdsChanged),
        RequestCode.LOCK_BATCH_MQ: Headers(group.LockBatch),
        RequestCode.UNLOCK_BATCH_MQ: Headers(group.UnlockBatch),
        RequestCode.CHECK_CLIENT_CONFIG: Headers(group.CheckClientConfig),
        RequestCode.GET_CONSUMER_RUNNING_INFO: Headers(group.GetConsumerRunningInfo),
        RequestCode.CONSUME_MESSAGE_DIRECTLY: Headers(group.ConsumeMessageDirectly),
        RequestCode.CONSUMER_SEND_MSG_BACK: Headers(transaction.ConsumerSendMessageBack),
        RequestCode.END_TRANSACTION: Headers(transaction.EndTransaction),
        RequestCode.CHECK_TRANSACTION_STATE: Headers(transaction.CheckTransactionState),
        RequestCode.RECALL_MESSAGE: Headers(timers.RecallMessage, timers.RecallMessageAnswer),
        RequestCode.LIST_WAITING: Headers(timers.ListWaiting, timers.ListWaitingAnswer),
        RequestCode.OPEN_STAGED_BATCH: Headers(staging.OpenStagedBatch, staging.StagedAnswer),
        RequestCode.STAGE_MESSAGES: Headers(staging.StageMessages, staging.StagedAnswer),
        RequestCode.PUBLISH_STAGED: Headers(staging.PublishStaged, staging.StagedAnswer),
        RequestCode.ABORT_STAGED: Headers(staging.AbortStaged, staging.StagedAnswer),
        RequestCode.STAGED_STATUS: Headers(staging.StagedStatus, staging.StagedAnswer),
        RequestCode.GET_ROUTEINFO_BY_TOPIC: Headers(namesrv.GetRouteInfo),
        RequestCode.REGISTER_BROKER: Headers(namesrv.RegisterBroker, namesrv.RegisterBrokerAnswer),
        RequestCode.UNREGISTER_BROKER: Headers(namesrv.UnregisterBroker),
        RequestCode.QUERY_DATA_VERSION: Headers(namesrv.QueryDataVersion, namesrv.QueryDataVersionAnswer),
        RequestCode.PUT_KV_CONFIG: Headers(namesrv.PutKvConfig),
        RequestCode.GET_KV_CONFIG: Headers(namesrv.GetKvConfig, namesrv.GetKvConfigAnswer),
        RequestCode.DELETE_KV_CONFIG: Headers(namesrv.DeleteKvConfig),
        RequestCode.GET_KVLIST_BY_NAMESPACE: Headers(namesrv.GetKvListByNamespace),
        RequestCode.WIPE_WRITE_PERM_OF_BROKER: Headers(
            namesrv.WipeWritePermOfBroker, namesrv.WipeWritePermOfBrokerAnswer
        ),
        RequestCode.ADD_WRITE_PERM_OF_BROKER: Headers(
            namesrv.AddWritePermOfBroker, namesrv.AddWritePermOfBrokerAnswer
        ),
        RequestCode.DELETE_TOPIC_IN_NAMESRV: Headers(namesrv.DeleteTopicInNamesrv),
        RequestCode.GET_TOPICS_BY_CLUSTER: Headers(namesrv.GetTopicsByCluster),
        RequestCode.GET_TOPIC_STATS_INFO: Headers(admin.GetTopicStats),
        RequestCode.GET_CONSUMER_CONNECTION_LIST: Headers(admin.GetConsumerConnectionList),
        RequestCode.GET_PRODUCER_CONNECTION_LIST: Headers(admin.GetProducerConnectionList),
        RequestCode.GET_CONSUME_STATS: Headers(admin.GetConsumeStats),
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Headers(admin.ResetOffset),
        RequestCode.RESET_GROUP_OFFSETS: Headers(admin.ResetGroupOffsets),
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Headers(admin.GetConsumerStatus),
        RequestCode.GET_BROKER_CONFIG: Headers(namesrv.NoFields, operations.GetBrokerConfigAnswer),
        RequestCode.DELETE_TOPIC_IN_BROKER: Headers(operations.DeleteTopic),
        RequestCode.DELETE_SUBSCRIPTIONGROUP: Headers(operations.DeleteSubscriptionGroup),
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Headers(operations.QueryTopicConsumeByWho),
        RequestCode.QUERY_CONSUME_TIME_SPAN: Headers(operations.QueryConsumeTimeSpan),
        RequestCode.QUERY_CORRECTION_OFFSET: Headers(operations.QueryCorrectionOffset),
        RequestCode.CLONE_GROUP_OFFSET: Headers(operations.CloneGroupOffset),
        RequestCode.VIEW_BROKER_STATS_DATA: Headers(operations.ViewBrokerStats),
        RequestCode.GET_BROKER_CONSUME_STATS: Headers(operations.GetBrokerConsumeStats),
        RequestCode.QUERY_CONSUME_QUEUE: Headers(operations.QueryConsumeQueue),
        RequestCode.RESUME_CHECK_HALF_MESSAGE: Headers(operations.ResumeCheckHalfMessage),
        RequestCode.QUERY_TOPICS_BY_CONSUMER: Headers(operations.QueryTopicsByConsumer),
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: Headers(operations.QuerySubscriptionByConsumer),
        RequestCode.GET_TOPIC_CONFIG: Headers(operations.GetTopicConfig),
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Headers(operations.GetSubscriptionGroupConfig),
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Headers(operations.UpdateGroupForbidden),
        RequestCode.GET_BROKER_CLUSTER_INFO: _LIST,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _LIST,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _LIST,
        RequestCode.GET_UNIT_TOPIC_LIST: _LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _LIST,
        RequestCode.UPDATE_NAMESRV_CONFIG: _LIST,
        RequestCode.GET_NAMESRV_CONFIG: _LIST,
    }
)
