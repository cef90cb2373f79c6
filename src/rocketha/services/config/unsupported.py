"""Keys of Apache RocketMQ that rocketha knows and does not act on, and why.

Two kinds.  ``IGNORED``: setting them is harmless, a warning says so and why.  ``REFUSED``: an operator who sets them to
anything but the value given here expects a behaviour that we do not have and whose absence could cost data or safety,
so the process does not start.  Names from ``BrokerConfig``, ``MessageStoreConfig``, ``NettyServerConfig``,
``NettyClientConfig``, ``NamesrvConfig``, ``ControllerConfig``, ``JraftConfig`` and ``AuthConfig`` of RocketMQ 5.3-5.5.
"""

from __future__ import annotations


def _because(reason: str, keys: str) -> dict[str, str]:
    return dict.fromkeys(keys.split(), reason)


IGNORED: dict[str, str] = {
    **_because(
        "requests are served on one reactor thread: there are no pools or queues to size",
        """sendMessageThreadPoolNums putMessageFutureThreadPoolNums pullMessageThreadPoolNums
        litePullMessageThreadPoolNums ackMessageThreadPoolNums processReplyMessageThreadPoolNums
        queryMessageThreadPoolNums adminBrokerThreadPoolNums clientManageThreadPoolNums consumerManageThreadPoolNums
        loadBalanceProcessorThreadPoolNums heartbeatThreadPoolNums recoverThreadPoolNums endTransactionThreadPoolNums
        sendThreadPoolQueueCapacity putThreadPoolQueueCapacity pullThreadPoolQueueCapacity
        litePullThreadPoolQueueCapacity ackThreadPoolQueueCapacity replyThreadPoolQueueCapacity
        queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity consumerManagerThreadPoolQueueCapacity
        heartbeatThreadPoolQueueCapacity endTransactionPoolQueueCapacity adminBrokerThreadPoolQueueCapacity
        loadBalanceThreadPoolQueueCapacity serverWorkerThreads serverCallbackExecutorThreads serverSelectorThreads
        serverOnewaySemaphoreValue serverAsyncSemaphoreValue serverNettyWorkerGroupEnable
        serverPooledByteBufAllocatorEnable useEpollNativeSelector clientWorkerThreads clientCallbackExecutorThreads
        clientOnewaySemaphoreValue clientAsyncSemaphoreValue clientPooledByteBufAllocatorEnable disableCallbackExecutor
        disableNettyWorkerGroup clientRequestThreadPoolNums defaultThreadPoolNums clientRequestThreadPoolQueueCapacity
        defaultThreadPoolQueueCapacity serverSocketSndBufSize serverSocketRcvBufSize clientSocketSndBufSize
        clientSocketRcvBufSize writeBufferLowWaterMark writeBufferHighWaterMark asyncSendEnable
        useReentrantLockWhenPutMessage topicQueueLockNum spinLockCollisionRetreatOptimalDegree
        useABSLock dispatchCqThreads dispatchCqCacheNum
        enableBuildConsumeQueueConcurrently batchDispatchRequestThreadPoolNums compactionThreadNum enableAsyncReput
        dispatchFromSenderThread maxAsyncPutMessageRequests putMsgIndexHightWater enableFastChannelEventProcess
        recoverConcurrently enableAcceleratedRecovery controllerThreadPoolNums
        controllerRequestThreadPoolQueueCapacity""",
    ),
    **_because(
        "the log is written with pwrite and read with pread, not through memory maps",
        """commitIntervalCommitLog commitCommitLogLeastPages commitCommitLogThoroughInterval transientStorePoolEnable
        transientStorePoolSize fastFailIfNoBufferInStorePool writeWithoutMmap mappedFileSwapEnable
        commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
        logicQueueForceSwapMapInterval logicQueueSwapMapInterval cleanSwapedMapInterval logicQueueSwapMapReserveFileNum
        transferMsgByHeap flushLeastPagesWhenWarmMapedFile wakeCommitWhenPutMessage wakeFlushWhenPutMessage
        flushCommitLogTimed putConsumeQueueDataByFileChannel dataReadAheadEnable osPageCacheBusyTimeOutMills
        destroyMapedFileIntervalForcibly redeleteHangedFileInterval debugLockEnable""",
    ),
    **_because(
        "transactions are not supported in this version",
        """enableTransactionMetrics rejectTransactionMessage transactionTimeOut transactionCheckMax
        transactionCheckInterval transactionMetricFlushInterval transactionOpMsgMaxSize transactionOpBatchInterval
        waitTimeMillsInTransactionQueue""",
    ),
    **_because(
        "POP consumption is not supported in this version",
        """popPollingSize popPollingMapSize popPollingMapExpireTimeSeconds maxPopPollingSize reviveQueueNum
        reviveInterval reviveMaxSlow reviveScanTime enableSkipLongAwaitingAck reviveAckWaitMs enablePopLog
        enablePopBufferMerge popCkStayBufferTime popCkStayBufferTimeOut popCkMaxBufferSize popCkOffsetMaxQueueSize
        enablePopBatchAck popLongPollingForceNotifyInterval enableNotifyBeforePopCalculateLag
        enableNotifyAfterPopOrderLockRelease initPopOffsetByCheckMsgInMem retrieveMessageFromPopRetryTopicV1
        enableRetryTopicV2 popFromRetryProbability popConsumerFSServiceInit popConsumerKVServiceLog
        popConsumerKVServiceInit popConsumerKVServiceEnable popReviveMaxReturnSizePerRead popReviveMaxAttemptTimes
        realTimeNotifyConsumerChange defaultMessageRequestMode defaultPopShareQueueNum serverLoadBalancerEnable
        loadBalancePollNameServerInterval popResponseReturnActualRetryTopic popInflightMessageThreshold
        enablePopMessageThreshold skipWhenCKRePutReachMaxTimes appendAckAsync appendCkAsync waitTimeMillsInAckQueue
        enablePopMetrics""",
    ),
    **_because(
        "arbitrary-time (timer wheel) messages are not supported in this version",
        """mappedFileSizeTimerLog timerPrecisionMs timerRollWindowSlot timerFlushIntervalMs timerGetMessageThreadNum
        timerPutMessageThreadNum timerEnableDisruptor timerEnableCheckMetrics timerInterceptDelayLevel timerMaxDelaySec
        timerWheelEnable disappearTimeAfterStart timerStopEnqueue timerCheckMetricsWhen timerSkipUnknownError
        timerWarmEnable timerStopDequeue timerEnableRetryUntilSuccess timerCongestNumEachSlot timerMetricSmallThreshold
        timerProgressLogIntervalMs timerColdDataCheckIntervalMs recallMessageEnable
        allowRecallWhenBrokerNotWriteable""",
    ),
    **_because(
        "SQL92 filters are not supported in this version",
        """enableCalcFilterBitMap expectConsumerNumUseFilter maxErrorRateOfBloomFilter filterDataCleanTimeSpan
        filterSupportRetry enablePropertyFilter enableConsumeQueueExt mappedFileSizeConsumeQueueExt
        bitMapLengthConsumeQueueExt maxFilterMessageSize""",
    ),
    **_because(
        "topic compaction, batch and light queues, and cold data control are not supported in this version",
        """compactionMappedFileSize compactionCqMappedFileSize compactionScheduleInternal maxOffsetMapSize
        enableCompaction mapperFileSizeBatchConsumeQueue searchBcqByCacheEnable enableLmq enableMultiDispatch
        maxLmqConsumeQueueNum enableLmqStats coldDataFlowControlEnable coldDataScanEnable coldCtrStrategyEnable
        usePIDColdCtrStrategy cgColdReadThreshold globalColdReadThreshold litePullMessageEnable
        waitTimeMillsInLitePullQueue enableMixedMessageType storeReplyMessageEnable sampleSteps sampleCountThreshold
        accessMessageInMemoryHotRatio travelCqFileNumWhenGetMessage estimateAccumulation""",
    ),
    **_because(
        "the controller's log has segments of its own size",
        "mappedFileSize",
    ),
    **_because(
        "RocksDB is not used",
        """cleanRocksDBDirtyCQIntervalMin statRocksDBCQIntervalSec memTableFlushIntervalMs realTimePersistRocksDBConfig
        enableRocksDBLog rocksdbCQDoubleWriteEnable combineCQLoadingCQTypes combineCQPreferCQType
        combineAssignOffsetCQType combineCQEnableCheckSelf combineCQMaxExtraSearchCommitLogFiles
        bottomMostCompressionTypeForConsumeQueueStore rocksdbCompressionType rocksdbFlushWalFrequency
        rocksdbWalFileRollingThreshold""",
    ),
    **_because(
        "metrics are not exported by gRPC or to the log: metricsExporterType=PROM, metricsOtlpEndpoint",
        """metricsGrpcExporterTarget metricsGrpcExporterHeader metricGrpcExporterTimeOutInMills
        metricGrpcExporterIntervalInMills metricLoggingExporterIntervalInMills metricsExportBatchMaxDataPoints""",
    ),
    **_because(
        "statistics are always kept, and shown by the status port",
        """accountStatsEnable accountStatsPrintZeroValues commercialBaseCount
        commercialSizePerMsg maxStatsIdleTimeInMinutes enableDetailStat autoDeleteUnusedStats isolateLogEnable
        enableScheduleMessageStats printChannelGroups printChannelGroupsMinNum diskFallRecorded highSpeedMode""",
    ),
    **_because(
        "it belongs to a mode of replication that is not supported (slaves acting as master)",
        """enableAutoInSyncReplicas skipPreOnline enableRemoteEscape syncBrokerMemberGroupPeriod
        brokerNotActiveTimeoutMillis maxChecksumRange maxSlaveResendLength lockInStrictMode""",
    ),
    **_because(
        "followers are sent what a turn gathered as one message",
        "enableBatchPush",
    ),
    **_because(
        "a replica syncs its own log, and reports what it has synced",
        "syncMasterFlushOffsetWhenStartup",
    ),
    **_because(
        "replicas are given what changed, when it changes",
        "delayOffsetUpdateVersionStep enableSplitMetadata splitMetadataSize",
    ),
    **_because(
        "slaveTimeout and syncFlushTimeout say how long a sender waits",
        "putMessageTimeout",
    ),
    **_because(
        "controllerAddr may name hosts, which are looked up whenever one is connected to",
        "fetchControllerAddrByDnsLookup",
    ),
    **_because(
        "rocketha reads its keys from the file named by --config and from flags only",
        """brokerConfigPath fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer fetchNamesrvAddrInterval
        updateNameServerAddrPeriod configName authConfigPath""",
    ),
    **_because(
        "a rocketha broker registers with all name servers, uncompressed, in full as long as that fits into a frame",
        """forceRegister compressedRegister enableSingleTopicRegister
        compatibleWithOldNameSrv""",
    ),
    **_because(
        "a rocketha controller has one Raft, on the port of its peer; jRaft's keys are not read",
        "jRaftGroupId jRaftServerId jRaftInitConf jRaftControllerRPCAddr jRaftElectionTimeoutMs "
        "jRaftSnapshotIntervalSecs jRaftScanWaitTimeoutMs",
    ),
    **_because(
        "how connections of clients are made is not configured here",
        "useTLS socksProxyConfig isScanAvailableNameSrv clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout "
        "channelNotActiveInterval maxReconnectIntervalTimeSeconds enableReconnectForGoAway enableShutdownGracefully "
        "shutdownWaitTimeSeconds enableNetWorkFlowControl",
    ),
    **_because(
        "rocketha has one way of doing this and no switch for it",
        """flushConsumerOffsetHistoryInterval disableConsumeIfConsumerReadSlowly consumerFallbehindThreshold
        enableBroadcastOffsetStore broadcastOffsetExpireSecond broadcastOffsetExpireMaxSecond cleanOfflineBrokerInterval
        forwardTimeout useStaticSubscription subscriptionExpiredTimeout clearRetryTopicWhenDeleteTopic
        enableRegisterProducer enableCreateSysGroup maxRecoveryCommitlogFiles deleteCommitLogFilesInterval
        deleteConsumeQueueFilesInterval duplicationEnable maxBatchDeleteFilesNum
        recheckReputOffsetFromCq maxTopicLength autoMessageVersionOnTopicLen enableRunningFlagsInFlush
        enabledAppendPropCRC forceVerifyPropCRC correctLogicMinOffsetSleepInterval correctLogicMinOffsetForceInterval
        enableCleanExpiredOffset pullBatchMaxMessageCount replicasPerDiskPartition
        logicalDiskSpaceCleanForciblyThreshold enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
        scheduleAsyncDeliverMaxResendNum2Blocked enableLogConsumeQueueRepeatedlyBuildWhenRecover isBrokerContainer
        isInBrokerContainer""",
    ),
    **_because(
        "users are kept in the group's log, and each request is judged by itself",
        """authenticationProvider authenticationMetadataProvider authenticationStrategy authorizationProvider
        authorizationMetadataProvider authorizationStrategy userCacheMaxNum userCacheExpiredSecond
        userCacheRefreshSecond aclCacheMaxNum aclCacheExpiredSecond aclCacheRefreshSecond
        statefulAuthenticationCacheMaxNum statefulAuthenticationCacheExpiredSecond statefulAuthorizationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond""",
    ),
}
"""Key to the reason why it has no effect."""

_NO_REPLICAS = "replication is classic or by controllers here, see docs/divergence.md"

REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "enableSlaveActingMaster": (("false",), _NO_REPLICAS),
    "brokerConfigPaths": (("",), "a process is one broker: start one for each of these files"),
    "storeType": (("default",), "only RocketMQ's file layout is supported, not RocksDB"),
    "configManagerVersion": (("V1", "v1"), "topics and offsets are kept in RocketMQ's JSON files, not in RocksDB"),
    "messageStorePlugIn": (("",), "Java classes cannot be loaded"),
    "readOnlyCommitLogStorePaths": (("",), "a commit log on several disks is not supported"),
    "readUnCommitted": (("false",), "consumers never read what is not confirmed"),
}
"""Key to the values with which it may stand in a file, and why no others."""
