"""RocketMQ's property names, sorted by what they mean here; read only when a key is none of our settings'.

*Ours*: see `setting_names.py`. *No effect here*: accepted, because RocketMQ's files must work as they are;
`idle.py` says why, and a start names those that a user gave. *Refused*: a promise that would be broken
silently (access control, replication by DLedger) stops the start.

The names are those of the setters of the classes that `BrokerStartup` and `NamesrvStartup` fill; they say
which spelling a file needs (`dLegerGroup`, `brokerIP1`).
"""

from enum import Enum

from pyromq.config.setting_names import OUR_NAMES, SAME, our_name

#: Properties of BrokerConfig in RocketMQ 4.9.8.
BROKER_CONFIG = """
aclEnable adminBrokerThreadPoolNums autoCreateSubscriptionGroup autoCreateTopicEnable
autoDeleteUnusedStats brokerClusterName brokerFastFailureEnable brokerIP1 brokerIP2 brokerId brokerName
brokerPermission brokerTopicEnable clientManageThreadPoolNums clientManagerThreadPoolQueueCapacity
clusterTopicEnable commercialBaseCount commercialBigCount commercialEnable commercialTimerCount
commercialTransCount compressedRegister configBlackList consumerFallbehindThreshold
consumerManageThreadPoolNums consumerManagerThreadPoolQueueCapacity defaultTopicQueueNums
disableConsumeIfConsumerReadSlowly enableCalcFilterBitMap enableDetailStat enablePropertyFilter
endTransactionPoolQueueCapacity endTransactionThreadPoolNums expectConsumerNumUseFilter
fetchNamesrvAddrByAddressServer filterDataCleanTimeSpan filterServerNums filterSupportRetry
flushConsumerOffsetHistoryInterval flushConsumerOffsetInterval forceRegister heartbeatThreadPoolNums
heartbeatThreadPoolQueueCapacity highSpeedMode isolateLogEnable longPollingEnable maxDelayTime
maxErrorRateOfBloomFilter messageStorePlugIn msgTraceTopicName namesrvAddr notifyConsumerIdsChangedEnable
processReplyMessageThreadPoolNums pullMessageThreadPoolNums pullThreadPoolQueueCapacity
putMessageFutureThreadPoolNums putThreadPoolQueueCapacity queryMessageThreadPoolNums
queryThreadPoolQueueCapacity regionId registerBrokerTimeoutMills registerNameServerPeriod
rejectTransactionMessage replyThreadPoolQueueCapacity rocketmqHome sendMessageThreadPoolNums
sendThreadPoolQueueCapacity shortPollingTimeMills slaveReadEnable startAcceptSendRequestTimeStamp
storeReplyMessageEnable traceOn traceTopicEnable transactionCheckInterval transactionCheckMax
transactionTimeOut transferMsgByHeap waitTimeMillsInHeartbeatQueue waitTimeMillsInPullQueue
waitTimeMillsInSendQueue waitTimeMillsInTransactionQueue
"""

#: Properties of MessageStoreConfig in RocketMQ 4.9.8.
MESSAGE_STORE_CONFIG = """
accessMessageInMemoryMaxRatio bitMapLengthConsumeQueueExt brokerRole checkCRCOnRecover
cleanFileForciblyEnable cleanResourceInterval commitCommitLogLeastPages commitCommitLogThoroughInterval
commitIntervalCommitLog dLegerGroup dLegerPeers dLegerSelfId debugLockEnable defaultQueryMaxNum
deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval deleteWhen destroyMapedFileIntervalForcibly
diskFallRecorded diskMaxUsedSpaceRatio duplicationEnable enableBatchPush enableConsumeQueueExt
enableDLegerCommitLog enableLmq enableMultiDispatch enableScheduleAsyncDeliver enableScheduleMessageStats
fastFailIfNoBufferInStorePool fileReservedTime flushCommitLogLeastPages flushCommitLogThoroughInterval
flushCommitLogTimed flushConsumeQueueLeastPages flushConsumeQueueThoroughInterval flushDelayOffsetInterval
flushDiskType flushIntervalCommitLog flushIntervalConsumeQueue flushLeastPagesWhenWarmMapedFile
haHousekeepingInterval haListenPort haMasterAddress haSendHeartbeatInterval haSlaveFallbehindMax
haTransferBatchSize mappedFileSizeCommitLog mappedFileSizeConsumeQueue mappedFileSizeConsumeQueueExt
maxHashSlotNum maxIndexNum maxLmqConsumeQueueNum maxMessageSize maxMsgsNumBatch
maxTransferBytesOnMessageInDisk maxTransferBytesOnMessageInMemory maxTransferCountOnMessageInDisk
maxTransferCountOnMessageInMemory messageDelayLevel messageIndexEnable messageIndexSafe offsetCheckInSlave
osPageCacheBusyTimeOutMills preferredLeaderId putMsgIndexHightWater readOnlyCommitLogStorePaths
redeleteHangedFileInterval scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
slaveTimeout storePathCommitLog storePathDLedgerCommitLog storePathRootDir syncFlushTimeout
transientStorePoolEnable transientStorePoolSize useReentrantLockWhenPutMessage warmMapedFileEnable
"""

#: Properties of NettyServerConfig in RocketMQ 4.9.8.
NETTY_SERVER_CONFIG = """
listenPort serverAsyncSemaphoreValue serverCallbackExecutorThreads serverChannelMaxIdleTimeSeconds
serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog
serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads useEpollNativeSelector
writeBufferHighWaterMark writeBufferLowWaterMark
"""

#: Properties of NettyClientConfig in RocketMQ 4.9.8.
NETTY_CLIENT_CONFIG = """
channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads
clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientOnewaySemaphoreValue
clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads
connectTimeoutMillis useTLS writeBufferHighWaterMark writeBufferLowWaterMark
"""

#: Properties of NamesrvConfig in RocketMQ 4.9.8.
NAMESRV_CONFIG = """
clusterTest configBlackList configStorePath kvConfigPath orderMessageEnable productEnvName rocketmqHome
"""

#: Properties that BrokerConfig has in RocketMQ 5.3.3 only.
BROKER_CONFIG_5 = """
accountStatsEnable accountStatsPrintZeroValues ackMessageThreadPoolNums ackThreadPoolQueueCapacity
adminBrokerThreadPoolQueueCapacity allowRecallWhenBrokerNotWriteable appendAckAsync appendCkAsync
asyncSendEnable broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond brokerConfigPath
brokerElectionPriority brokerHeartbeatInterval brokerNotActiveTimeoutMillis cgColdReadThreshold
channelExpiredTimeout checkSyncStateSetPeriod cleanOfflineBrokerInterval clearRetryTopicWhenDeleteTopic
coldCtrStrategyEnable commercialSizePerMsg compatibleWithOldNameSrv configManagerVersion
consumerOffsetUpdateVersionStep controllerAddr controllerHeartBeatTimeoutMills defaultMessageRequestMode
defaultPopShareQueueNum delayOffsetUpdateVersionStep enableBroadcastOffsetStore enableControllerMode
enableCreateSysGroup enableFastChannelEventProcess enableLmqStats enableMixedMessageType
enableNetWorkFlowControl enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag
enablePopBatchAck enablePopBufferMerge enablePopLog enablePopMessageThreshold enableRegisterProducer
enableRemoteEscape enableRetryTopicV2 enableSingleTopicRegister enableSkipLongAwaitingAck
enableSlaveActingMaster enableSplitRegistration estimateAccumulation fetchControllerAddrByDnsLookup
fetchNameSrvAddrByDnsLookup fetchNamesrvAddrInterval forwardTimeout globalColdReadThreshold
inBrokerContainer initPopOffsetByCheckMsgInMem listenPort litePullMessageEnable
litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity loadBalancePollNameServerInterval
loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity lockInStrictMode maxPopPollingSize
maxStatsIdleTimeInMinutes metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills
metricLoggingExporterIntervalInMills metricsExporterType metricsGrpcExporterHeader
metricsGrpcExporterTarget metricsInDelta metricsLabel metricsOtelCardinalityLimit metricsPromExporterHost
metricsPromExporterPort popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime
popCkStayBufferTimeOut popConsumerFSServiceInit popConsumerKVServiceEnable popConsumerKVServiceInit
popConsumerKVServiceLog popFromRetryProbability popInflightMessageThreshold
popLongPollingForceNotifyInterval popPollingMapSize popPollingSize popResponseReturnActualRetryTopic
popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead printChannelGroups printChannelGroupsMinNum
realTimeNotifyConsumerChange recoverConcurrently recoverThreadPoolNums
rejectPullConsumerEnable retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval reviveMaxSlow
reviveQueueNum reviveScanTime sendHeartbeatTimeoutMillis serverLoadBalancerEnable skipPreOnline
skipWhenCKRePutReachMaxTimes splitRegistrationSize subscriptionExpiredTimeout syncBrokerMemberGroupPeriod
syncBrokerMetadataPeriod syncControllerMetadataPeriod transactionMetricFlushInterval
transactionOpBatchInterval transactionOpMsgMaxSize updateNameServerAddrPeriod usePIDColdCtrStrategy
useServerSideResetOffset useStaticSubscription validateSystemTopicWhenUpdateTopic waitTimeMillsInAckQueue
waitTimeMillsInAdminBrokerQueue waitTimeMillsInLitePullQueue
"""

#: Properties that MessageStoreConfig has in RocketMQ 5.3.3 only.
MESSAGE_STORE_CONFIG_5 = """
accessMessageInMemoryHotRatio allAckInSyncStateSet asyncLearner autoMessageVersionOnTopicLen
batchDispatchRequestThreadPoolNums bottomMostCompressionTypeForConsumeQueueStore
cleanRocksDBDirtyCQIntervalMin cleanSwapedMapInterval coldDataFlowControlEnable coldDataScanEnable
commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal compactionThreadNum
correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval dataReadAheadEnable
deleteFileBatchMax disappearTimeAfterStart diskSpaceCleanForciblyRatio diskSpaceWarningLevelRatio
dispatchCqCacheNum dispatchCqThreads dispatchFromSenderThread enableAsyncReput enableAutoInSyncReplicas
enableBuildConsumeQueueConcurrently enableCleanExpiredOffset enableCompaction enableRocksDBLog
enabledAppendPropCRC forceVerifyPropCRC haFlowControlEnable haMaxGapNotInSync haMaxTimeSlaveNotCatchup
inSyncReplicas logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum
logicalDiskSpaceCleanForciblyThreshold mappedFileSizeTimerLog mappedFileSwapEnable
mapperFileSizeBatchConsumeQueue maxAsyncPutMessageRequests maxBatchDeleteFilesNum maxChecksumRange
maxConsumeQueueScan maxFilterMessageSize maxHaTransferByteInSecond maxOffsetMapSize
maxRecoveryCommitlogFiles maxSlaveResendLength maxTopicLength memTableFlushIntervalMs minInSyncReplicas
pullBatchMaxMessageCount putConsumeQueueDataByFileChannel putMessageTimeout readUnCommitted
realTimePersistRocksDBConfig recheckReputOffsetFromCq replicasPerDiskPartition rocksdbCQDoubleWriteEnable
rocksdbCompressionType rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold sampleCountThreshold
sampleSteps searchBcqByCacheEnable spinLockCollisionRetreatOptimalDegree statRocksDBCQIntervalSec
storePathBrokerIdentity storePathEpochFile storeType syncFromLastFile syncMasterFlushOffsetWhenStartup
timerColdDataCheckIntervalMs timerCongestNumEachSlot timerEnableCheckMetrics timerEnableRetryUntilSuccess
timerFlushIntervalMs timerGetMessageThreadNum timerInterceptDelayLevel timerMaxDelaySec
timerMetricSmallThreshold timerPrecisionMs timerProgressLogIntervalMs timerPutMessageThreadNum
timerRollWindowSlot timerSkipUnknownError timerStopEnqueue timerWheelEnable topicQueueLockNum
totalReplicas travelCqFileNumWhenGetMessage useABSLock wakeCommitWhenPutMessage wakeFlushWhenPutMessage
"""

#: Properties that NettyServerConfig has in RocketMQ 5.3.3 only.
NETTY_SERVER_CONFIG_5 = """
bindAddress enableShutdownGracefully serverNettyWorkerGroupEnable shutdownWaitTimeSeconds
"""

#: Properties that NettyClientConfig has in RocketMQ 5.3.3 only.
NETTY_CLIENT_CONFIG_5 = """
disableCallbackExecutor disableNettyWorkerGroup enableReconnectForGoAway maxReconnectIntervalTimeSeconds
scanAvailableNameSrv socksProxyConfig
"""

#: Properties that NamesrvConfig has in RocketMQ 5.3.3 only.
NAMESRV_CONFIG_5 = """
clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity defaultThreadPoolNums
defaultThreadPoolQueueCapacity deleteTopicWithBrokerRegistration enableAllTopicList
enableControllerInNamesrv enableTopicList needWaitForService notifyMinBrokerIdChanged
returnOrderTopicConfigToBroker scanNotActiveBrokerInterval supportActingMaster
unRegisterBrokerQueueCapacity waitSecondsForService
"""

#: Properties of AuthConfig, which RocketMQ 5.3 reads from broker.conf too.
AUTH_CONFIG_5 = """
authConfigPath authenticationCacheExpiredSecond authenticationCacheMaxNum authenticationCacheRefreshSecond
authenticationEnabled authenticationMetadataProvider authenticationProvider authenticationStrategy
authenticationWhitelist authorizationCacheExpiredSecond authorizationCacheMaxNum
authorizationCacheRefreshSecond authorizationEnabled authorizationMetadataProvider authorizationProvider
authorizationStrategy authorizationWhitelist clusterName initAuthenticationUser
innerClientAuthenticationCredentials migrateAuthFromV1Enabled statefulAuthenticationCacheExpiredSecond
statefulAuthenticationCacheMaxNum statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum
"""
#: What BrokerStartup reads from the file by itself, for the system properties rocketmq.namesrv.domain….
BROKER_STARTUP = "rmqAddressServerDomain rmqAddressServerSubGroup"
#: Names that RocketMQ 4.9 does not read, but that files copied from manual to manual still carry.
FOLKLORE = """
abortFile checkTransactionMessageEnable storeCheckpoint storePathAbortFile storePathConsumeQueue
storePathIndex
"""

_OPEN_TO_ALL = "RocketMQ 5's access control is not built; 4.9's is: aclEnable=true, with plain_acl.yml"
#: Property → why `true` is not accepted. Any other value of these has no effect.
REFUSED = {
    "authenticationEnabled": _OPEN_TO_ALL,
    "authorizationEnabled": _OPEN_TO_ALL,
    "enableDLegerCommitLog": "replication by DLedger is not built, and messages would be kept once only",
    "enableControllerMode": "RocketMQ's controller is not built, and messages would be kept once only",
    "duplicationEnable": "a second copy of the log is not kept",
}

APACHE_NAMES = frozenset(
    " ".join(
        [
            BROKER_CONFIG,
            MESSAGE_STORE_CONFIG,
            NETTY_SERVER_CONFIG,
            NETTY_CLIENT_CONFIG,
            NAMESRV_CONFIG,
            BROKER_CONFIG_5,
            MESSAGE_STORE_CONFIG_5,
            NETTY_SERVER_CONFIG_5,
            NETTY_CLIENT_CONFIG_5,
            NAMESRV_CONFIG_5,
            AUTH_CONFIG_5,
            BROKER_STARTUP,
            FOLKLORE,
        ]
    ).split()
)
NO_EFFECT = APACHE_NAMES - SAME.keys()


class Meaning(Enum):
    """The standing of a settings file's key: known, renamed, or without effect."""

    OURS = "ours"
    NO_EFFECT = "no effect here"
    UNKNOWN = "unknown"


def meaning_of(key: str) -> Meaning:
    """Sort a key of a settings file."""
    if our_name(key) in OUR_NAMES:
        return Meaning.OURS
    return Meaning.NO_EFFECT if key in NO_EFFECT or key.startswith(_IGNORED_PREFIX) else Meaning.UNKNOWN


#: System properties of RocketMQ's network layer, sometimes pasted into files.
_IGNORED_PREFIX = "com.rocketmq."
