"""The commands that only look: they change nothing on a server, unless an option says so.

The one list of them. Help and the reference show it, and tests hold each of them against our servers and
against Apache's.
"""

_OF_ADMIN = """
    DecodeMessageId allocateMQ brokerConsumeStats brokerStatus clusterAclConfigVersion clusterList
    consumeMessage consumerConnection consumerProgress consumerStatus exportConfigs exportMetadata
    exportMetrics getBrokerConfig getConsumerConfig getConsumerStatus getNamesrvConfig printMsg
    printMsgByQueue producer producerConnection queryCq queryMsgById queryMsgByKey queryMsgByOffset
    queryMsgByUniqueKey queryMsgTraceById replicas startMonitoring statsAll topicClusterList topicList
    topicRoute topicStatus
"""
_OF_NOUNS = {
    "topic": "list show rates",
    "group": "list lag members show",
    "message": "show search at trace",
    "cluster": "list status settings",
    "delayed": "list show",
    "dlq": "list show",
}
_ALONE = ("doctor", "top")

#: Their words, as `admin topicStatus`, `topic show` and `top`.
READ_ONLY = frozenset(
    {
        *(f"admin {name}" for name in _OF_ADMIN.split()),
        *(f"{noun} {verb}" for noun, verbs in _OF_NOUNS.items() for verb in verbs.split()),
        *_ALONE,
    }
)
