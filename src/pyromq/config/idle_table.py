"""Table of RocketMQ's settings that have no effect here: their defaults, and the reasons.

A key that gets an effect is declared in `settings.py` and may stay in this table: `idle.py` leaves it out.
The defaults are those of RocketMQ 4.9.8, read from its classes, or of 5.3.3 for names that only 5.x has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pyromq.config.values import Value, write_value


class LostPromise(StrEnum):
    """A promise that a setting would have changed."""

    DURABILITY = "durability"
    LIMITS = "limits"
    SECURITY = "security"


@dataclass(frozen=True, slots=True)
class Idle:
    """One of RocketMQ's settings without effect here.

    `defaults` has more than one value if 4.9.8 and 5.3.3 differ, and none if the default depends on the
    machine or there is no such setting in RocketMQ. `built` is the value that the product works as if it had,
    where that is not the default.
    """

    key: str
    defaults: tuple[str, ...]
    category: str
    reason: str
    promise: LostPromise | None = None
    built: str | None = None

    def changes_nothing(self, value: Value) -> bool:
        """Whether a value asks for nothing else than what is there without it."""
        text = write_value(value).strip().lower()
        harmless = self.defaults if self.built is None else (self.built,)
        return text in (one.lower() for one in harmless)


@dataclass(frozen=True, slots=True)
class IdleSettings:
    """Settings without effect for the same reason.

    `keys` has `key=default`; `*` stands for no fixed default, and `default~value` says what is built.
    """

    category: str
    reason: str
    promise: LostPromise | None
    keys: str

    def settings(self) -> Iterator[Idle]:
        """Yield the settings of the group."""
        for item in self.keys.split():
            key, _, default = item.partition("=")
            default, _, built = default.partition("~")
            defaults = () if default == "*" else tuple(default.split("|"))
            yield Idle(key, defaults, self.category, self.reason, self.promise, built or None)


GROUPS = (
    IdleSettings(
        "threads",
        "one loop serves every request: there is no pool of threads to size",
        None,
        """
        ackMessageThreadPoolNums=16 adminBrokerThreadPoolNums=16 asyncSendEnable=true
        batchDispatchRequestThreadPoolNums=16 clientCallbackExecutorThreads=*
        clientManageThreadPoolNums=32 clientRequestThreadPoolNums=8 clientWorkerThreads=4
        compactionThreadNum=6 consumerManageThreadPoolNums=32 defaultThreadPoolNums=16
        disableCallbackExecutor=false disableNettyWorkerGroup=false dispatchCqThreads=10
        enableFastChannelEventProcess=false endTransactionThreadPoolNums=* heartbeatThreadPoolNums=*
        litePullMessageEnable=true litePullMessageThreadPoolNums=* loadBalanceProcessorThreadPoolNums=32
        processReplyMessageThreadPoolNums=* pullMessageThreadPoolNums=* putMessageFutureThreadPoolNums=*
        queryMessageThreadPoolNums=* recoverConcurrently=false recoverThreadPoolNums=32
        sendMessageThreadPoolNums=* serverCallbackExecutorThreads=0 serverNettyWorkerGroupEnable=true
        serverSelectorThreads=3 serverWorkerThreads=8 timerGetMessageThreadNum=3
        timerPutMessageThreadNum=3
        """,
    ),
    IdleSettings(
        "queues",
        "no other kind of request has a queue of its own; requestsUnderWayMax is the limit",
        LostPromise.LIMITS,
        """
        adminBrokerThreadPoolQueueCapacity=10000 clientManagerThreadPoolQueueCapacity=1000000
        clientRequestThreadPoolQueueCapacity=50000 consumerManagerThreadPoolQueueCapacity=1000000
        defaultThreadPoolQueueCapacity=10000 litePullThreadPoolQueueCapacity=100000
        loadBalanceThreadPoolQueueCapacity=100000 maxAsyncPutMessageRequests=5000
        putThreadPoolQueueCapacity=10000 queryThreadPoolQueueCapacity=20000
        unRegisterBrokerQueueCapacity=3000 waitTimeMillsInAdminBrokerQueue=5000
        waitTimeMillsInLitePullQueue=5000
        """,
    ),
    IdleSettings(
        "network",
        "connections are asyncio's, and are opened, kept and closed without these",
        None,
        """
        channelNotActiveInterval=60000 clientAsyncSemaphoreValue=65535 clientChannelMaxIdleTimeSeconds=120
        clientCloseSocketIfTimeout=true clientOnewaySemaphoreValue=65535
        clientPooledByteBufAllocatorEnable=false clientSocketRcvBufSize=0 clientSocketSndBufSize=0
        enableReconnectForGoAway=true enableShutdownGracefully=false maxReconnectIntervalTimeSeconds=60
        scanAvailableNameSrv=true serverAsyncSemaphoreValue=64 serverOnewaySemaphoreValue=256
        serverPooledByteBufAllocatorEnable=true shutdownWaitTimeSeconds=30 transferMsgByHeap=true
        useEpollNativeSelector=false
        """,
    ),
    IdleSettings(
        "network",
        "a proxy is not used: other servers are connected to directly",
        LostPromise.SECURITY,
        """
        socksProxyConfig={}
        """,
    ),
    IdleSettings(
        "write buffer",
        "one write buffer is enough and never lacking; it is committed when it is due, and not read before",
        None,
        """
        fastFailIfNoBufferInStorePool=false readUnCommitted=false wakeCommitWhenPutMessage=true
        """,
    ),
    IdleSettings(
        "log files",
        "one writer appends with a single write: there is no lock, warm-up or batch to tune",
        None,
        """
        autoMessageVersionOnTopicLen=true debugLockEnable=false diskFallRecorded=true
        flushCommitLogTimed=true flushLeastPagesWhenWarmMapedFile=4096 putMessageTimeout=8000
        spinLockCollisionRetreatOptimalDegree=1000 topicQueueLockNum=32 useABSLock=false
        useReentrantLockWhenPutMessage=true wakeFlushWhenPutMessage=false warmMapedFileEnable=false
        """,
    ),
    IdleSettings(
        "log files",
        "files are read through maps that the operating system keeps or drops",
        None,
        """
        accessMessageInMemoryHotRatio=26 cleanSwapedMapInterval=300000
        commitLogForceSwapMapInterval=43200000 commitLogSwapMapInterval=3600000
        commitLogSwapMapReserveFileNum=100 dataReadAheadEnable=true
        logicQueueForceSwapMapInterval=43200000 logicQueueSwapMapInterval=3600000
        logicQueueSwapMapReserveFileNum=20 mappedFileSwapEnable=true
        """,
    ),
    IdleSettings(
        "log files",
        "messages in further folders are not read, so consumers would not get them",
        LostPromise.DURABILITY,
        """
        readOnlyCommitLogStorePaths=
        """,
    ),
    IdleSettings(
        "log files",
        "properties have no checksum of their own: the body has one",
        LostPromise.DURABILITY,
        """
        enabledAppendPropCRC=false forceVerifyPropCRC=false
        """,
    ),
    IdleSettings(
        "deletion",
        "a file goes when it may, whoever still reads it, and one that cannot go is tried at each look",
        None,
        """
        deleteFileBatchMax=10 destroyMapedFileIntervalForcibly=120000 enableCleanExpiredOffset=false
        logicalDiskSpaceCleanForciblyThreshold=0.8 maxBatchDeleteFilesNum=50
        redeleteHangedFileInterval=120000
        """,
    ),
    IdleSettings(
        "consume queues",
        "an entry is written together with its message, and index entries too: nothing follows later",
        None,
        """
        correctLogicMinOffsetForceInterval=300000 correctLogicMinOffsetSleepInterval=1
        dispatchCqCacheNum=4096 dispatchFromSenderThread=false enableAsyncReput=true
        enableBuildConsumeQueueConcurrently=false flushConsumeQueueLeastPages=2
        maxChecksumRange=1073741824 maxConsumeQueueScan=20000 maxRecoveryCommitlogFiles=30
        messageIndexSafe=false putConsumeQueueDataByFileChannel=true putMsgIndexHightWater=600000
        recheckReputOffsetFromCq=false sampleCountThreshold=5000 sampleSteps=32
        searchBcqByCacheEnable=true travelCqFileNumWhenGetMessage=1
        """,
    ),
    IdleSettings(
        "consume queues",
        "a query by key returns at most 64 messages",
        LostPromise.LIMITS,
        """
        maxMsgsNumBatch=64
        """,
    ),
    IdleSettings(
        "filters",
        "a filter is evaluated on each message: there are no bit maps and no filter servers",
        None,
        """
        bitMapLengthConsumeQueueExt=64 enableCalcFilterBitMap=false enableConsumeQueueExt=false
        expectConsumerNumUseFilter=32 filterDataCleanTimeSpan=86400000 filterServerNums=0
        mappedFileSizeConsumeQueueExt=50331648 maxErrorRateOfBloomFilter=20
        """,
    ),
    IdleSettings(
        "filters",
        "how much one pull may pass over has a fixed limit",
        LostPromise.LIMITS,
        """
        maxFilterMessageSize=16000 pullBatchMaxMessageCount=160
        """,
    ),
    IdleSettings(
        "DLedger",
        "replication by DLedger is not built; --failover replaces a lost master",
        None,
        """
        dLegerGroup= dLegerPeers= dLegerSelfId= enableBatchPush=false enableDLegerCommitLog=false
        preferredLeaderId= storePathDLedgerCommitLog=
        """,
    ),
    IdleSettings(
        "controller",
        "RocketMQ's controller is not built; --failover replaces a lost master",
        None,
        """
        brokerElectionPriority=2147483647 brokerHeartbeatInterval=1000 brokerNotActiveTimeoutMillis=10000
        checkSyncStateSetPeriod=5000 controllerAddr= controllerHeartBeatTimeoutMills=10000
        enableControllerInNamesrv=false enableControllerMode=false fetchControllerAddrByDnsLookup=false
        sendHeartbeatTimeoutMillis=1000 storePathBrokerIdentity=* storePathEpochFile=*
        syncBrokerMetadataPeriod=5000 syncControllerMetadataPeriod=10000
        """,
    ),
    IdleSettings(
        "acting master",
        "a slave does not act for a lost master; --failover replaces the master",
        None,
        """
        cleanOfflineBrokerInterval=30000 compatibleWithOldNameSrv=true disappearTimeAfterStart=-1
        enableRemoteEscape=false enableSlaveActingMaster=false forwardTimeout=3000 inBrokerContainer=false
        lockInStrictMode=false notifyMinBrokerIdChanged=false replicasPerDiskPartition=1
        skipPreOnline=false supportActingMaster=false syncBrokerMemberGroupPeriod=1000
        """,
    ),
    IdleSettings(
        "replication",
        "how many replicas a send waits for is decided by brokerRole, inSyncReplicas and minInSyncReplicas",
        LostPromise.DURABILITY,
        """
        allAckInSyncStateSet=false asyncLearner=false duplicationEnable=false
        enableAutoInSyncReplicas=false totalReplicas=1
        """,
    ),
    IdleSettings(
        "replication",
        "a slave copies the log from where it ends, as fast as it can",
        None,
        """
        haMaxGapNotInSync=268435456 haMaxTimeSlaveNotCatchup=15000 maxSlaveResendLength=268435456
        offsetCheckInSlave=false syncFromLastFile=false syncMasterFlushOffsetWhenStartup=false
        """,
    ),
    IdleSettings(
        "replication",
        "how fast a slave copies has no limit",
        LostPromise.LIMITS,
        """
        haFlowControlEnable=false maxHaTransferByteInSecond=104857600
        """,
    ),
    IdleSettings(
        "pop",
        "what is popped is followed in the log; there are no checkpoints, revive queues and buffers",
        None,
        """
        ackThreadPoolQueueCapacity=100000 appendAckAsync=false appendCkAsync=false
        enableNotifyAfterPopOrderLockRelease=true enableNotifyBeforePopCalculateLag=true
        enablePopBatchAck=false enablePopBufferMerge=false enablePopLog=false
        enableSkipLongAwaitingAck=false
        loadBalancePollNameServerInterval=30000
        popCkMaxBufferSize=200000 popCkOffsetMaxQueueSize=20000 popCkStayBufferTime=10000
        popCkStayBufferTimeOut=3000 popConsumerFSServiceInit=true popConsumerKVServiceEnable=false
        popConsumerKVServiceInit=false popConsumerKVServiceLog=false
        popLongPollingForceNotifyInterval=800 popPollingMapSize=100000
        popResponseReturnActualRetryTopic=false popReviveMaxAttemptTimes=16
        popReviveMaxReturnSizePerRead=16384 reviveAckWaitMs=180000
        reviveInterval=1000 reviveMaxSlow=3 reviveQueueNum=8 reviveScanTime=10000
        skipWhenCKRePutReachMaxTimes=false waitTimeMillsInAckQueue=3000
        """,
    ),
    IdleSettings(
        "RocksDB",
        "queues and tables are RocketMQ's files, not RocksDB",
        None,
        """
        bottomMostCompressionTypeForConsumeQueueStore=zstd cleanRocksDBDirtyCQIntervalMin=60
        configManagerVersion=v1 consumerOffsetUpdateVersionStep=500 delayOffsetUpdateVersionStep=200
        enableRocksDBLog=false memTableFlushIntervalMs=3600000 realTimePersistRocksDBConfig=true
        rocksdbCompressionType=lz4 rocksdbCQDoubleWriteEnable=false rocksdbFlushWalFrequency=1024
        rocksdbWalFileRollingThreshold=1073741824 statRocksDBCQIntervalSec=10 storeType=default
        """,
    ),
    IdleSettings(
        "compaction",
        "topics are not compacted: messages go by their age",
        None,
        """
        compactionCqMappedFileSize=10485760 compactionMappedFileSize=104857600
        compactionScheduleInternal=900000 enableCompaction=true mapperFileSizeBatchConsumeQueue=13800000
        maxOffsetMapSize=104857600
        """,
    ),
    IdleSettings(
        "scheduled messages",
        "messages with a time of their own wait in a table, not in a timer wheel",
        None,
        """
        enableScheduleAsyncDeliver=false enableScheduleMessageStats=true mappedFileSizeTimerLog=104857600
        scheduleAsyncDeliverMaxPendingLimit=2000 scheduleAsyncDeliverMaxResendNum2Blocked=3
        timerColdDataCheckIntervalMs=60000 timerEnableCheckMetrics=true timerEnableRetryUntilSuccess=false
        timerFlushIntervalMs=1000 timerInterceptDelayLevel=false timerMetricSmallThreshold=1000000
        timerPrecisionMs=1000 timerProgressLogIntervalMs=10000 timerRollWindowSlot=172800
        timerSkipUnknownError=false timerStopEnqueue=false
        """,
    ),
    IdleSettings(
        "scheduled messages",
        "the longest delay is timerMaxDelaySec, and one slot of time takes any number of messages",
        LostPromise.LIMITS,
        """
        maxDelayTime=40 timerCongestNumEachSlot=2147483647
        """,
    ),
    IdleSettings(
        "scheduled messages",
        "a producer may always recall a message that has a time of its own",
        LostPromise.LIMITS,
        """
        allowRecallWhenBrokerNotWriteable=true
        """,
    ),
    IdleSettings(
        "light queues",
        "light message queues and several queues for one message are not built",
        None,
        """
        enableLmq=false enableLmqStats=false enableMultiDispatch=false maxLmqConsumeQueueNum=20000
        """,
    ),
    IdleSettings(
        "flow control",
        "a consumer that reads old messages is neither stopped nor slowed down",
        LostPromise.LIMITS,
        """
        cgColdReadThreshold=3145728 coldCtrStrategyEnable=false coldDataFlowControlEnable=false
        coldDataScanEnable=false consumerFallbehindThreshold=17179869184
        disableConsumeIfConsumerReadSlowly=false enableNetWorkFlowControl=false
        globalColdReadThreshold=104857600 usePIDColdCtrStrategy=true
        """,
    ),
    IdleSettings(
        "flow control",
        "pull consumers are served",
        LostPromise.LIMITS,
        """
        rejectPullConsumerEnable=false
        """,
    ),
    IdleSettings(
        "statistics",
        "statistics are kept for runtime info and Prometheus only",
        None,
        """
        accountStatsEnable=true accountStatsPrintZeroValues=true autoDeleteUnusedStats=false|true
        commercialBaseCount=1 commercialBigCount=1 commercialEnable=true commercialSizePerMsg=4096
        commercialTimerCount=1 commercialTransCount=1 enableDetailStat=true estimateAccumulation=true
        maxStatsIdleTimeInMinutes=-1 printChannelGroups=false printChannelGroupsMinNum=5
        transactionMetricFlushInterval=3000
        """,
    ),
    IdleSettings(
        "statistics",
        "metrics are served to Prometheus; they are not pushed by gRPC nor written to a log",
        None,
        """
        metricGrpcExporterIntervalInMills=60000 metricGrpcExporterTimeOutInMills=3000
        metricLoggingExporterIntervalInMills=10000 metricsGrpcExporterHeader= metricsGrpcExporterTarget=
        metricsInDelta=false metricsLabel=
        """,
    ),
    IdleSettings(
        "logging",
        "logs go to standard error; --log-level says how much",
        None,
        """
        isolateLogEnable=false
        """,
    ),
    IdleSettings(
        "access control",
        "RocketMQ 5's access control is not built; 4.9's is: aclEnable=true, with plain_acl.yml",
        LostPromise.SECURITY,
        """
        authConfigPath= authenticationEnabled=false authenticationMetadataProvider=
        authenticationProvider= authenticationStrategy= authenticationWhitelist=
        authorizationEnabled=false authorizationMetadataProvider= authorizationProvider=
        authorizationStrategy= authorizationWhitelist= initAuthenticationUser=
        migrateAuthFromV1Enabled=false
        """,
    ),
    IdleSettings(
        "access control",
        "RocketMQ 5's access control is not built, and neither are its caches",
        None,
        """
        authenticationCacheExpiredSecond=* authenticationCacheMaxNum=* authenticationCacheRefreshSecond=*
        authorizationCacheExpiredSecond=* authorizationCacheMaxNum=* authorizationCacheRefreshSecond=*
        clusterName= statefulAuthenticationCacheExpiredSecond=60 statefulAuthenticationCacheMaxNum=10000
        statefulAuthorizationCacheExpiredSecond=60 statefulAuthorizationCacheMaxNum=10000
        """,
    ),
    IdleSettings(
        "topics",
        "a topic's name has at most 127 characters",
        LostPromise.LIMITS,
        """
        maxTopicLength=127
        """,
    ),
    IdleSettings(
        "topics",
        "RocketMQ's own topics are always protected",
        None,
        """
        enableMixedMessageType=false validateSystemTopicWhenUpdateTopic=true
        """,
    ),
    IdleSettings(
        "topics",
        "topics are listed, registered and deleted as in RocketMQ 4.9",
        None,
        """
        clearRetryTopicWhenDeleteTopic=true deleteTopicWithBrokerRegistration=false
        enableAllTopicList=true enableTopicList=true returnOrderTopicConfigToBroker=true
        """,
    ),
    IdleSettings(
        "clients",
        "groups, producers and offsets are kept as RocketMQ 4.9 keeps them",
        None,
        """
        broadcastOffsetExpireMaxSecond=300 broadcastOffsetExpireSecond=120 enableBroadcastOffsetStore=true
        enableCreateSysGroup=true enableRegisterProducer=true flushConsumerOffsetHistoryInterval=60000
        realTimeNotifyConsumerChange=true subscriptionExpiredTimeout=600000 useServerSideResetOffset=true
        useStaticSubscription=false
        """,
    ),
    IdleSettings(
        "transactions",
        "a transaction's end is written at once, not in batches",
        None,
        """
        transactionOpBatchInterval=3000 transactionOpMsgMaxSize=4096
        """,
    ),
    IdleSettings(
        "registration",
        "a broker registers whole, at once after a change and with each heartbeat",
        None,
        """
        enableSingleTopicRegister=false enableSplitRegistration=false forceRegister=true
        splitRegistrationSize=800
        """,
    ),
    IdleSettings(
        "registration",
        "name servers are those of namesrvAddr, or of the HTTP address; each change is acted on at once",
        None,
        """
        fetchNameSrvAddrByDnsLookup=false fetchNamesrvAddrInterval=10000
        updateNameServerAddrPeriod=120000
        """,
    ),
    IdleSettings(
        "name server",
        "a name server answers from its first moment, and never asks another",
        None,
        """
        clusterTest=false needWaitForService=false waitSecondsForService=45
        """,
    ),
    IdleSettings(
        "plug-ins",
        "plug-ins of the store are not loaded",
        LostPromise.DURABILITY,
        """
        messageStorePlugIn=
        """,
    ),
    IdleSettings(
        "paths",
        "the program finds its files itself: -c names the settings, --data the folder",
        None,
        """
        brokerConfigPath= rocketmqHome=
        """,
    ),
    IdleSettings(
        "old manuals",
        "RocketMQ 4.9 does not read it either",
        None,
        """
        abortFile=* checkTransactionMessageEnable=* highSpeedMode=false storeCheckpoint=*
        storePathAbortFile=* storePathConsumeQueue=* storePathIndex=*
        """,
    ),
)
