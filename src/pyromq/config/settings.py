"""Every setting, with its default and its sentence; one frozen class a component.

A value here is the only default there is. `config/load.py` fills these classes from a file, the environment
and flags; code that is given one never looks elsewhere. Names are RocketMQ's (see `config/field.py`); those
that RocketMQ does not have are marked *Ours*.
"""

from dataclasses import dataclass

from pyromq.config.choices import (
    BrokerRole,
    Compression,
    FlushDiskType,
    MetricsExporterType,
    TlsClientAuth,
    TlsServerMode,
)
from pyromq.config.field import PORT_MAX, setting
from pyromq.config.grpc_settings import GRPC_UNCHANGED, GrpcSettings
from pyromq.config.namesrv_settings import NAMESRV_UNCHANGED, NamesrvSettings
from pyromq.config.pop_settings import POP_UNCHANGED, PopSettings
from pyromq.config.pressure import UNCHANGED, PressureSettings

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The broker's settings, apart from its store and its connections."""

    broker_name: str = setting("broker-a", "Name of this group of replicas in its cluster.", form="name")
    broker_cluster_name: str = setting("DefaultCluster", "Name of the cluster.", form="name")
    broker_id: int = setting(0, "0 for the master, 1 and up for its slaves.")
    broker_role: BrokerRole = setting(
        BrokerRole.ASYNC_MASTER,
        "Whether a send waits for a slave (SYNC_MASTER), does not, or this is a slave.",
    )
    namesrv_addr: str = setting(
        "", "Name servers to register with, host:port joined by semicolons.", form="addresses", live=True
    )
    fetch_namesrv_addr_by_address_server: bool = setting(
        False, "Where namesrvAddr is empty, ask an HTTP address for the name servers, every two minutes."
    )
    rmq_address_server_domain: str = setting(
        "jmenv.tbsite.net", "Host, or host:port, of that HTTP address; the port is else 8080."
    )
    rmq_address_server_sub_group: str = setting("nsaddr", "What it is asked for: /rocketmq/ and this.")
    listen_port: int = setting(10911, "TCP port; 0 takes a free one.", at_most=PORT_MAX)
    bind_address: str = setting(
        "", "Address to listen on; empty: brokerIP1, or 127.0.0.1; 0.0.0.0 opens it to all.", form="host"
    )
    broker_ip1: str = setting(
        "", "Address given to clients; empty: the one listened on.", key="brokerIP1", form="host"
    )
    broker_ip2: str = setting(
        "", "Address given to slaves; empty: the same as brokerIP1.", key="brokerIP2", form="host"
    )
    broker_permission: int = setting(
        6, "What clients may do here: 4 read, 2 write, 6 both.", at_most=7, live=True
    )
    failover: str = setting(
        "", "Where the master is decided, etcd://HOST:2379; empty: the role stays. Ours.", form="url"
    )
    failover_lease: int = setting(
        3_000, "Milliseconds without a word from etcd after which a master is none. Ours.", at_least=2_000
    )
    in_sync_timeout: int = setting(
        2_000, "Milliseconds behind after which a replica may not become master. Ours.", at_least=100
    )
    acl_enable: bool = setting(False, "Ask every request for an account that may do it.")
    acl_folder: str = setting("", "Folder of plain_acl.yml and acl/; empty: config of the store. Ours.")
    inner_client_authentication_credentials: str = setting(
        "", 'The account that asks other brokers: {"accessKey":"…","secretKey":"…"}.', secret=True
    )
    copy_topics_on_join: bool = setting(
        False, "Take over the topics of the cluster's other brokers at the first start. Ours."
    )
    auto_create_on_all: bool = setting(
        False, "Create a topic on every broker of the cluster at its first send. Ours.", live=True
    )
    region_id: str = setting("DefaultRegion", "Region's name, handed to producers for traces.")
    trace_on: bool = setting(True, "Tell producers that traces are wanted.")

    default_topic_queue_nums: int = setting(
        8, "Most queues that a topic created by its first send gets.", at_least=1
    )
    auto_create_topic_enable: bool = setting(True, "Create a topic at its first send.", live=True)
    cluster_topic_enable: bool = setting(True, "Have a topic named after the cluster.")
    broker_topic_enable: bool = setting(True, "Have a topic named after the broker.")
    auto_create_subscription_group: bool = setting(True, "Create a consumer group at first use.", live=True)
    trace_topic_enable: bool = setting(False, "Have the topic for message traces.")
    msg_trace_topic_name: str = setting(
        "RMQ_SYS_TRACE_TOPIC", "Name of the topic for message traces.", form="name"
    )

    register_name_server_period: int = setting(
        30_000, "Milliseconds between registrations; held between 10,000 and 60,000.", at_least=1
    )
    register_broker_timeout_mills: int = setting(
        6_000, "Milliseconds that a name server has to answer.", at_least=1
    )
    compressed_register: bool = setting(False, "Send registrations compressed.")

    long_polling_enable: bool = setting(
        True, "Hold a pull that finds nothing for as long as its client allows.", live=True
    )
    short_polling_time_mills: int = setting(
        1_000, "Milliseconds that such a pull is held when long polling is off.", live=True
    )
    held_pulls_max: int = setting(
        100_000, "Pulls that may be held at a time; more are answered at once. Ours.", live=True
    )
    notify_consumer_ids_changed_enable: bool = setting(
        True, "Tell a group's members when one joins or leaves.", live=True
    )
    reject_inconsistent_subscription: bool = setting(
        False,
        "Refuse the members of a group that subscribe differently from most of it, with the reason. Ours.",
    )
    subscription_conflict_grace: int = setting(
        60_000,
        "Milliseconds that members may subscribe differently, as in a deployment, until they are told. Ours.",
    )
    channel_expired_timeout: int = setting(
        120_000, "Milliseconds without a heartbeat after which a client is forgotten.", at_least=1
    )
    flush_consumer_offset_interval: int = setting(
        5_000, "Milliseconds between writes of the groups' progress.", at_least=1
    )

    enable_property_filter: bool = setting(False, "Let consumers filter by SQL92.")
    filter_support_retry: bool = setting(
        False, "Filter messages that are delivered again by SQL92 as well, should the filter have changed."
    )
    slave_read_enable: bool = setting(False, "Send consumers of old messages to a slave.", live=True)
    start_accept_send_request_time_stamp: int = setting(
        0, "Refuse sends before this time, in milliseconds since 1970.", live=True
    )
    reject_transaction_message: bool = setting(False, "Refuse transaction messages.", live=True)
    transaction_time_out: int = setting(
        6_000, "Milliseconds after which an undecided transaction is asked about.", live=True
    )
    transaction_check_max: int = setting(
        15, "Times that a producer is asked about a transaction before it is dropped.", live=True
    )
    transaction_check_interval: int = setting(
        60_000, "Milliseconds between looks for undecided transactions.", at_least=1
    )
    staged_message_timeout: int = setting(
        3_600_000,
        "Milliseconds after which staged messages nobody published are forgotten. Ours.",
        at_least=1,
    )
    staged_chunks_max: int = setting(
        100_000, "Chunks of staged messages that may wait to be published. Ours.", at_least=1
    )
    store_reply_message_enable: bool = setting(
        True, "Store the replies of request-reply calls whose caller is not connected here.", live=True
    )
    metrics_exporter_type: MetricsExporterType = setting(
        MetricsExporterType.DISABLE, "PROM serves metrics to Prometheus over HTTP; DISABLE does not."
    )
    metrics_prom_exporter_port: int = setting(
        5557, "TCP port of the metrics; 0 takes a free one.", at_most=PORT_MAX
    )
    metrics_prom_exporter_host: str = setting(
        "127.0.0.1", "Address that metrics are served on; 0.0.0.0 opens them to all.", form="host"
    )
    metrics_otel_cardinality_limit: int = setting(
        50_000, "Most values of one metric on a page; the others are left out.", at_least=1
    )
    health_port: int = setting(
        0,
        "TCP port of the health pages alone, /health/live and /health/ready; 0: none. Ours.",
        at_most=PORT_MAX,
    )
    health_host: str = setting(
        "127.0.0.1", "Address that they are served on; 0.0.0.0 opens them to all. Ours.", form="host"
    )
    config_black_list: str = setting(
        "configBlackList;brokerConfigPath",
        "Settings that updateBrokerConfig may not change, joined by semicolons.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of the store: its folders, files, flushes and retention."""

    store_path_root_dir: str = setting("", "Folder of the store; empty: one in the data folder.")
    store_path_commit_log: str = setting("", "Folder of the commit log; empty: `commitlog` in the store.")
    mapped_file_size_commit_log: int = setting(1 * GIB, "Bytes of one commit log file.", at_least=4 * KIB)
    mapped_file_size_consume_queue: int = setting(
        6_000_000, "Bytes of one consume queue file; an entry takes 20.", at_least=20
    )
    max_message_size: int = setting(
        4 * MIB, "Bytes that a message's body may have.", at_least=1, at_most=512 * MIB
    )
    message_delay_level: str = setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "Delays of the levels 1, 2, …; units s, m, h, d.",
        form="delay_levels",
    )
    timer_wheel_enable: bool = setting(
        True,
        "Take messages with a delay of their own (TIMER_DELAY_MS …); those that wait are delivered anyway.",
    )
    timer_max_delay_sec: int = setting(
        366 * 24 * 3600, "Seconds that a message may wait that has a delay of its own.", at_least=1
    )
    flush_delay_offset_interval: int = setting(
        10_000, "Milliseconds between writes of the delay levels' progress.", at_least=1
    )

    flush_disk_type: FlushDiskType = setting(
        FlushDiskType.ASYNC_FLUSH, "Whether a send is answered once the disk has it, or at once."
    )
    sync_flush_timeout: int = setting(
        5_000, "Milliseconds that a send waits for the disk under SYNC_FLUSH.", at_least=1, live=True
    )
    flush_interval_commit_log: int = setting(
        500, "Milliseconds between syncs of the commit log under ASYNC_FLUSH.", at_least=1
    )
    flush_commit_log_least_pages: int = setting(
        4, "Pages of 4 KiB that must wait for such a sync.", live=True
    )
    flush_commit_log_thorough_interval: int = setting(10_000, "Milliseconds until fewer pages do.", live=True)
    transient_store_pool_enable: bool = setting(
        False, "Under ASYNC_FLUSH let a master's messages wait in memory for a commit; a kill loses them."
    )
    transient_store_pool_size: int = setting(5, "Write buffers; runtime information counts them.", at_least=1)
    commit_interval_commit_log: int = setting(200, "Milliseconds between commits.", at_least=1)
    commit_commit_log_least_pages: int = setting(4, "Pages of 4 KiB that must wait for a commit.", live=True)
    commit_commit_log_thorough_interval: int = setting(200, "Milliseconds until fewer pages do.", live=True)
    flush_interval_consume_queue: int = setting(
        1_000, "Milliseconds between looks whether the consume queues are to be synced.", at_least=1
    )
    flush_consume_queue_thorough_interval: int = setting(
        60_000, "Milliseconds after which they are synced even if little is new.", live=True
    )

    file_reserved_time: int = setting(72, "Hours that files are kept after their last write.", live=True)
    delete_when: str = setting(
        "04", "Hours of the day at which old files go, joined by semicolons.", form="hours", live=True
    )
    disk_max_used_space_ratio: int = setting(
        75, "Percent of the disk from which on old files go at any hour.", at_least=10, at_most=95, live=True
    )
    disk_space_warning_level_ratio: int = setting(
        90, "Percent of the disk from which on sends are refused.", at_least=10, at_most=100, live=True
    )
    disk_space_clean_forcibly_ratio: int = setting(
        85,
        "Percent of the disk from which on files go before their time.",
        at_least=10,
        at_most=100,
        live=True,
    )
    clean_file_forcibly_enable: bool = setting(
        True, "Let files go before their time when the disk is nearly full.", live=True
    )
    delete_commit_log_files_interval: int = setting(100, "Milliseconds between removed log files.", live=True)
    delete_consume_queue_files_interval: int = setting(100, "Milliseconds between queues.", live=True)
    clean_resource_interval: int = setting(
        10_000, "Milliseconds between looks for files that may go.", at_least=1
    )

    max_transfer_bytes_on_message_in_memory: int = setting(
        256 * KIB, "Bytes that one pull of young messages may return.", live=True
    )
    max_transfer_count_on_message_in_memory: int = setting(
        32, "Young messages that one pull may return.", live=True
    )
    max_transfer_bytes_on_message_in_disk: int = setting(
        64 * KIB, "Bytes that one pull of old messages may return.", live=True
    )
    max_transfer_count_on_message_in_disk: int = setting(
        8, "Old messages that one pull may return.", live=True
    )
    max_transfer_bytes_on_bulk_pull: int = setting(
        4 * MIB,
        "Bytes that one pull may return which asks for more than maxTransferBytesOnMessageInMemory (by "
        "maxMsgBytes, as Spark's source does), a quarter of it from old messages; 0: as any other. Ours.",
        live=True,
    )
    access_message_in_memory_max_ratio: int = setting(
        40,
        "Percent of the machine's memory; messages within that much of the log's end are young.",
        at_most=100,
    )

    message_index_enable: bool = setting(True, "Index messages by their keys.")
    max_hash_slot_num: int = setting(5_000_000, "Hash slots of one index file.", at_least=1)
    max_index_num: int = setting(20_000_000, "Entries of one index file.", at_least=1)
    default_query_max_num: int = setting(
        32,
        "Messages that a query by key returns at most when it asks for a unique id.",
        at_least=1,
    )

    check_crc_on_recover: bool = setting(
        True, "Check the bodies' checksums when the store is opened.", key="checkCRCOnRecover"
    )
    ha_listen_port: int = setting(0, "TCP port for slaves; 0: the broker's port plus one.", at_most=PORT_MAX)
    ha_allowed_addresses: str = setting("", "With aclEnable, who may copy besides the white list. Ours.")
    ha_use_tls: bool = setting(
        False,
        "Copy the log under TLS only: with this broker's certificate, and what useTLS is told. Ours.",
        key="haUseTLS",
    )
    ha_master_address: str = setting(
        "", "Where a slave copies from, host:port; empty: as the name servers say.", form="addresses"
    )
    ha_transfer_batch_size: int = setting(
        32 * KIB, "Bytes of the log that a master puts into one frame for a slave.", at_least=KIB
    )
    ha_send_heartbeat_interval: int = setting(
        5_000, "Milliseconds of silence after which master and slave say something.", at_least=10
    )
    ha_housekeeping_interval: int = setting(
        20_000, "Milliseconds of silence after which a master or slave takes the other for gone.", at_least=50
    )
    ha_slave_fallbehind_max: int = setting(
        256 * MIB, "Bytes behind which a slave is too far for a synchronous master to wait for.", live=True
    )
    slave_timeout: int = setting(
        3_000, "Milliseconds that a send waits for slaves before FLUSH_SLAVE_TIMEOUT.", at_least=1, live=True
    )
    in_sync_replicas: int = setting(
        1, "Brokers, the master too, that a synchronous master waits for; at least 2 are.", at_least=1
    )
    min_in_sync_replicas: int = setting(
        1, "Brokers, the master too, without which a master takes no messages.", at_least=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetSettings:
    """Connections of a server: limits and TLS."""

    server_channel_max_idle_time_seconds: int = setting(
        120, "Seconds of silence after which a connection is closed.", at_least=1
    )
    server_socket_snd_buf_size: int = setting(0, "Bytes of a socket's send buffer; 0: the system's choice.")
    server_socket_rcv_buf_size: int = setting(
        0, "Bytes of a socket's receive buffer; 0: the system's choice."
    )
    server_socket_backlog: int = setting(1_024, "Connections that may wait to be accepted.", at_least=1)
    frame_bytes_max: int = setting(
        16 * MIB,
        "Bytes of the largest frame that is taken; a larger one ends its connection. Ours.",
        at_least=KIB,
    )
    connections_max: int = setting(
        15_000, "Connections at a time; more are closed at once. Ours.", at_least=1
    )
    requests_under_way_max: int = setting(
        4_096, "Unanswered requests of one connection; one more is answered SYSTEM_BUSY. Ours.", at_least=1
    )
    write_buffer_high_water_mark: int = setting(
        4 * MIB, "Bytes waiting for a slow reader before it is read no further.", at_least=1
    )
    write_buffer_low_water_mark: int = setting(
        1 * MIB, "Bytes waiting for a slow reader below which it is read again.", at_least=1
    )
    connect_timeout_millis: int = setting(
        3_000, "Milliseconds that a connection to another server may take.", at_least=1
    )
    tls_server_mode: TlsServerMode = setting(
        TlsServerMode.PERMISSIVE, "TLS refused, taken beside plain connections on the same port, or required."
    )
    tls_server_cert_path: str = setting("", "PEM file of the certificate chain; empty: no TLS.")
    tls_server_key_path: str = setting("", "PEM file of the certificate's private key.")
    tls_server_key_password: str = setting("", "Password of the private key.", secret=True)
    tls_server_need_client_auth: TlsClientAuth = setting(
        TlsClientAuth.NONE, "Whether clients are asked for a certificate, and whether they must show one."
    )
    tls_server_auth_client: bool = setting(False, "Check the certificates that clients show.")
    tls_server_trust_cert_path: str = setting(
        "", "PEM file of the authorities that clients' certificates are checked by."
    )
    use_tls: bool = setting(False, "Use TLS towards other servers.", key="useTLS")
    tls_client_auth_server: bool = setting(False, "Check the certificates of other servers.")
    tls_client_trust_cert_path: str = setting(
        "", "PEM file of the authorities for that; empty: the system's."
    )
    tls_client_cert_path: str = setting("", "PEM file of the certificate shown to other servers.")
    tls_client_key_path: str = setting("", "PEM file of its private key.")
    tls_client_key_password: str = setting("", "Password of that key.", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """A client's settings; not read from files, given by the program."""

    send_msg_timeout: int = setting(3_000, "Milliseconds that a send may take, with its retries.", at_least=1)
    retry_times_when_send_failed: int = setting(2, "Further tries of a synchronous send.")
    retry_times_when_send_async_failed: int = setting(2, "Further tries of an asynchronous send.")
    retry_another_broker_when_not_store_ok: bool = setting(
        False,
        "Send again when a message is stored but not as safe as asked.",
        key="retryAnotherBrokerWhenNotStoreOK",
    )
    send_through_switch: bool = setting(
        True,
        "While a group of brokers replaces its master, wait for the next one until the timeout; false: give "
        "up after the further tries. Ours.",
    )
    send_latency_fault_enable: bool = setting(
        False, "Keep away from brokers that were slow or failed, for up to ten minutes."
    )
    send_least_latency_enable: bool = setting(False, "Send to the queue whose last send took least. Ours.")
    compress_msg_body_over_howmuch: int = setting(4 * KIB, "Bytes from which on a body is sent compressed.")
    compress_type: Compression = setting(Compression.ZLIB, "How: ZLIB, LZ4 or ZSTD.")
    compress_level: int = setting(5, "How hard, for ZLIB (up to 9) and ZSTD.", at_most=22)
    max_message_size: int = setting(4 * MIB, "Bytes that a body may have.", at_least=1)
    decompressed_bytes_max: int = setting(
        64 * MIB,
        "Bytes to which a compressed body may grow here; the bodies of one answer, to four times that. Ours.",
        at_least=1,
    )
    default_topic_queue_nums: int = setting(4, "Queues asked for when a send creates its topic.", at_least=1)
    create_topic_key: str = setting(
        "TBW102", "Template of the topics that sends create; empty: none is created."
    )

    namesrv_addr: str = setting(
        "",
        "Name servers, host:port joined by semicolons, where the client is given none.",
        form="addresses",
    )
    namesrv_domain: str = setting(
        "", "Host, or host:port, that tells by HTTP which name servers there are; such as jmenv.tbsite.net."
    )
    namesrv_domain_subgroup: str = setting("nsaddr", "What it is asked for: /rocketmq/ and this.")
    poll_name_server_interval: int = setting(
        30_000, "Milliseconds between looks for changed routes.", at_least=1
    )
    heartbeat_broker_interval: int = setting(30_000, "Milliseconds between heartbeats.", at_least=1)
    persist_consumer_offset_interval: int = setting(
        5_000, "Milliseconds between commits of consumers' progress.", at_least=1
    )
    mq_client_api_timeout: int = setting(3_000, "Milliseconds that other requests may take.", at_least=1)
    broker_suspend_max_time_millis: int = setting(20_000, "Milliseconds that a broker may hold a pull.")
    consumer_timeout_millis_when_suspend: int = setting(
        30_000, "Milliseconds that such a pull may take in all.", at_least=1
    )
    consumer_pull_timeout_millis: int = setting(
        10_000, "Milliseconds that a pull may take that is not held.", at_least=1
    )

    consume_thread_min: int = setting(
        20, "Listener calls of a push consumer that run at once.", at_least=1, at_most=1_000
    )
    consume_thread_max: int = setting(
        20,
        "The most to which update_core_pool_size() may raise them; not below consumeThreadMin.",
        at_least=1,
        at_most=1_000,
    )
    consume_message_batch_max_size: int = setting(
        1, "Messages that a listener is given at once.", at_least=1, at_most=1_024
    )
    pull_batch_size: int = setting(32, "Messages that one pull asks for.", at_least=1, at_most=1_024)
    pull_interval: int = setting(0, "Milliseconds between pulls that bring messages.", at_most=65_535)
    pull_threshold_for_queue: int = setting(
        1_000, "Messages of a queue that may wait here before pulling stops.", at_least=1, at_most=65_535
    )
    pull_threshold_size_for_queue: int = setting(
        100, "MiB of a queue that may wait here before pulling stops.", at_least=1, at_most=1_024
    )
    pull_threshold_for_topic: int = setting(
        -1, "Messages of all queues that may wait here; -1: as many.", at_least=-1, at_most=6_553_500
    )
    pull_threshold_size_for_topic: int = setting(
        -1, "MiB of all queues that may wait here; -1: as many.", at_least=-1, at_most=102_400
    )
    pop_batch_nums: int = setting(
        32, "Messages that one pop of a push consumer asks for.", at_least=1, at_most=32
    )
    pop_threshold_for_queue: int = setting(
        96, "Popped messages of one broker's topic that may wait here.", at_least=1, at_most=65_535
    )
    pop_invisible_time: int = setting(
        60_000,
        "Milliseconds that a popped message is invisible to others; renewed while a listener has it.",
        at_least=5_000,
        at_most=300_000,
    )
    consume_concurrently_max_span: int = setting(
        2_000,
        "Offsets from the oldest unfinished message of a queue to its newest.",
        at_least=1,
        at_most=65_535,
    )
    max_reconsume_times: int = setting(
        -1, "Tries after which a message is a dead letter; -1: 16, and without end in order.", at_least=-1
    )
    suspend_current_queue_time_millis: int = setting(
        1_000, "Milliseconds after which a failed message is tried again in order."
    )
    consume_timeout: int = setting(
        15, "Minutes after which a listener's message is sent back for another try.", at_least=1
    )
    await_termination_millis_when_shutdown: int = setting(
        5_000, "Milliseconds that closing waits for listeners; RocketMQ's default is 0."
    )
    post_subscription_when_pull: bool = setting(False, "Send the tags with every pull.")
    pull_time_delay_mills_when_exception: int = setting(
        3_000, "Milliseconds from a pull that failed to the next.", at_least=1
    )
    push_suspend_max_time_millis: int = setting(
        15_000, "Milliseconds that a broker may hold a push consumer's pull. Ours."
    )
    rebalance_wait_interval: int = setting(
        20_000, "Milliseconds between looks at who reads which queue.", at_least=1
    )
    rebalance_lock_interval: int = setting(
        20_000, "Milliseconds between renewals of the locks of queues read in order.", at_least=1
    )
    rebalance_lock_max_live_time: int = setting(
        30_000, "Milliseconds for which such a lock is trusted.", at_least=1
    )
    pull_max_idle_time: int = setting(
        120_000, "Milliseconds without a pull after which a queue is taken anew.", at_least=1
    )
    local_offset_store_dir: str = setting(
        "", "Folder of broadcasting consumers' offsets; empty: .rocketmq_offsets in the home folder."
    )

    client_ip: str = setting(
        "", "Address in the client's id; empty: this machine's own.", key="clientIP", form="host"
    )
    instance_name: str = setting("DEFAULT", "Name in the client's id; DEFAULT: one for each process.")
    unit_name: str = setting("", "Unit in the client's id.")
    unit_mode: bool = setting(False, "Mark requests as made by a unit.")
    namespace: str = setting("", "Prefix of this client's topics and groups.")
    vip_channel_enabled: bool = setting(False, "Send to the broker's port minus two.")
    connect_timeout_millis: int = setting(3_000, "Milliseconds that a connection may take.", at_least=1)
    use_tls: bool = setting(False, "Use TLS.", key="useTLS")
    tls_client_auth_server: bool = setting(False, "Check the servers' certificates.")
    tls_client_trust_cert_path: str = setting(
        "", "PEM file of the authorities for that; empty: the system's."
    )
    tls_client_cert_path: str = setting("", "PEM file of the certificate shown to servers.")
    tls_client_key_path: str = setting("", "PEM file of its private key.")
    tls_client_key_password: str = setting("", "Password of that key.", secret=True)
    enable_msg_trace: bool = setting(False, "Send traces of what became of messages to a topic for them.")
    customized_trace_topic: str = setting("", "That topic; empty: RMQ_SYS_TRACE_TOPIC.")
    access_key: str = setting("", "Name that requests are signed with, where brokers have aclEnable=true.")
    secret_key: str = setting("", "The key for it.", secret=True)
    security_token: str = setting("", "Token of temporary keys.", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProcess:
    """All settings of a broker process."""

    broker: BrokerSettings = BrokerSettings()
    pressure: PressureSettings = UNCHANGED
    pop: PopSettings = POP_UNCHANGED
    grpc: GrpcSettings = GRPC_UNCHANGED
    store: StoreSettings = StoreSettings()
    net: NetSettings = NetSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvProcess:
    """All settings of a name server process."""

    namesrv: NamesrvSettings = NAMESRV_UNCHANGED
    net: NetSettings = NetSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpProcess:
    """All settings of a broker and a name server in one process.

    Where both have a setting of one name, a file, a variable or `--set` means the broker's.
    """

    broker: BrokerSettings = BrokerSettings()
    pressure: PressureSettings = UNCHANGED
    pop: PopSettings = POP_UNCHANGED
    grpc: GrpcSettings = GRPC_UNCHANGED
    store: StoreSettings = StoreSettings()
    net: NetSettings = NetSettings()
    namesrv: NamesrvSettings = NAMESRV_UNCHANGED
