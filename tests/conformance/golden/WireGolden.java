// Prints what Apache RocketMQ 4.9.8's own classes write, a line each: name, TAB, hexadecimal bytes.
// The README beside this file says how `wire_4.9.8.tsv` was made with it.

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.DataVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.admin.TopicOffset;
import org.apache.rocketmq.common.admin.TopicStatsTable;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.filter.FilterAPI;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.CheckClientRequestBody;
import org.apache.rocketmq.common.protocol.body.ClusterInfo;
import org.apache.rocketmq.common.protocol.body.ConsumerOffsetSerializeWrapper;
import org.apache.rocketmq.common.protocol.body.GetConsumerStatusBody;
import org.apache.rocketmq.common.protocol.body.KVTable;
import org.apache.rocketmq.common.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.common.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.common.protocol.body.ResetOffsetBody;
import org.apache.rocketmq.common.protocol.body.SubscriptionGroupWrapper;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.common.protocol.body.TopicList;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.common.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.common.protocol.route.BrokerData;
import org.apache.rocketmq.common.protocol.route.QueueData;
import org.apache.rocketmq.common.protocol.route.TopicRouteData;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.store.schedule.DelayOffsetSerializeWrapper;

public class WireGolden {
    static void line(String name, byte[] bytes) {
        StringBuilder hex = new StringBuilder();
        for (byte b : bytes) {
            hex.append(String.format("%02x", b));
        }
        System.out.println(name + "\t" + hex);
    }

    static void line(String name, String text) {
        line(name, text.getBytes(StandardCharsets.UTF_8));
    }

    public static class Queue {
        final int id;

        Queue(int id) {
            this.id = id;
        }

        public String getTopic() {
            return "T";
        }

        public int getQueueId() {
            return id;
        }

        public String getNothing() {
            return null;
        }
    }

    static Map<Object, Object> map(Object... pairs) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            map.put(pairs[i], pairs[i + 1]);
        }
        return map;
    }

    static void fastjson() {
        Map<Object, Object> all = map(
            "byQueue", map(new Queue(0), 5L, new Queue(1), new Queue(2)),
            "doubles", Arrays.asList(0.0, 1.5, 1e7, 1e-4, 123456789.125, 1e21, -2.5e-10, 9999999.5, 0.001, 1e300),
            "emptyList", new ArrayList<String>(),
            "emptyMap", map(),
            "ints", map(3, 1L, 4, 5L),
            "lists", Arrays.asList(Arrays.asList(1, 2), Arrays.asList(3), new ArrayList<String>()),
            "names", Arrays.asList("x", "y", null),
            "nested", map(1, new Queue(3), 2, Arrays.asList(1, 2)),
            "no", false,
            "nulls", map("x", null, "y", 1),
            "queues", Arrays.asList(new Queue(4), new Queue(5)),
            "table", map("a@b", map(0, 12L, 1, 3L), "c@d", map(0, -12L)));
        line("fastjson.compact", JSON.toJSONString(all));
        line("fastjson.pretty", JSON.toJSONString(all, true));
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 0x20; i++) {
            text.append((char) i);
        }
        text.append("\"\\/\u007f\u0080\u009f\u00a0\u00ff\u2028\u2029\u4e2d\ud83d\ude00<>&'");
        Map<Object, Object> texts = map(text.toString(), text.toString());
        line("fastjson.text", JSON.toJSONString(texts));
        line("fastjson.ascii", JSON.toJSONString(texts, SerializerFeature.BrowserCompatible));
    }

    static DataVersion version() {
        return JSON.parseObject("{\"counter\":2,\"timestamp\":1794770446747}", DataVersion.class);
    }

    static TopicConfigSerializeWrapper topics() {
        TopicConfigSerializeWrapper wrapper = new TopicConfigSerializeWrapper();
        ConcurrentHashMap<String, TopicConfig> table = new ConcurrentHashMap<>(1024);
        String[] names = {"SELF_TEST_TOPIC", "TBW102", "BenchmarkTest", "DefaultCluster", "broker-a", "OFFSET_MOVED_EVENT",
            "SCHEDULE_TOPIC_XXXX", "DefaultCluster_REPLY_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TopicTest"};
        int n = 1;
        for (String name : names) {
            table.put(name, new TopicConfig(name, n, n + 1, n % 2 == 0 ? 6 : 7));
            n++;
        }
        table.get("TopicTest").setOrder(true);
        table.get("TopicTest").setTopicSysFlag(1);
        wrapper.setTopicConfigTable(table);
        wrapper.setDataVersion(version());
        return wrapper;
    }

    static void tables() throws Exception {
        line("topics.compact", topics().encode());
        line("topics.pretty", topics().toJson(true));
        SubscriptionGroupWrapper groups = new SubscriptionGroupWrapper();
        ConcurrentHashMap<String, SubscriptionGroupConfig> table = new ConcurrentHashMap<>(1024);
        for (String name : Arrays.asList("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "my_group")) {
            SubscriptionGroupConfig config = new SubscriptionGroupConfig();
            config.setGroupName(name);
            table.put(name, config);
        }
        groups.setSubscriptionGroupTable(table);
        groups.setDataVersion(version());
        line("groups.compact", groups.encode());
        line("groups.pretty", groups.toJson(true));
        ConsumerOffsetSerializeWrapper offsets = new ConsumerOffsetSerializeWrapper();
        ConcurrentHashMap<String, java.util.concurrent.ConcurrentMap<Integer, Long>> byName = new ConcurrentHashMap<>(512);
        for (String name : Arrays.asList("TopicTest@cg1", "%RETRY%cg1@cg1", "Other@cg2")) {
            ConcurrentHashMap<Integer, Long> inner = new ConcurrentHashMap<>(32);
            for (int i = 0; i < 4; i++) {
                inner.put(i, 100L + i);
            }
            byName.put(name, inner);
        }
        offsets.setOffsetTable(byName);
        line("groupOffsets.compact", offsets.encode());
        line("groupOffsets.pretty", offsets.toJson(true));
        DelayOffsetSerializeWrapper delays = new DelayOffsetSerializeWrapper();
        ConcurrentHashMap<Integer, Long> levels = new ConcurrentHashMap<>(32);
        levels.put(3, 1L);
        levels.put(18, 7L);
        delays.setOffsetTable(levels);
        line("delayOffsets.compact", delays.encode());
        line("delayOffsets.pretty", delays.toJson(true));
        RegisterBrokerBody register = new RegisterBrokerBody();
        register.setTopicConfigSerializeWrapper(topics());
        register.setFilterServerList(new ArrayList<>(Arrays.asList("127.0.0.1:30000")));
        line("register.plain", register.encode(false));
        line("register.compressed", register.encode(true));
        KVTable keyValues = new KVTable();
        HashMap<String, String> values = new HashMap<>();
        values.put("TopicTest", "broker-a:4;broker-b:4");
        keyValues.setTable(values);
        line("keyValues", keyValues.encode());
    }

    static void routes() {
        TopicRouteData route = new TopicRouteData();
        List<QueueData> queues = new ArrayList<>();
        List<BrokerData> brokers = new ArrayList<>();
        for (String name : Arrays.asList("broker-b", "broker-中")) {
            QueueData queue = new QueueData();
            queue.setBrokerName(name);
            queue.setPerm(6);
            queue.setReadQueueNums(4);
            queue.setWriteQueueNums(8);
            queue.setTopicSysFlag(1);
            queues.add(queue);
            HashMap<Long, String> addresses = new HashMap<>();
            addresses.put(1L, "127.0.0.1:10921");
            addresses.put(0L, "127.0.0.1:10911");
            brokers.add(new BrokerData("DefaultCluster", name, addresses));
        }
        route.setQueueDatas(queues);
        route.setBrokerDatas(brokers);
        route.setFilterServerTable(new HashMap<>());
        line("route.old", route.encode());
        line("route.standard", route.encode(SerializerFeature.BrowserCompatible, SerializerFeature.QuoteFieldNames,
            SerializerFeature.SkipTransientField, SerializerFeature.MapSortField));
        route.setOrderTopicConf("broker-b:4;broker-a:4");
        line("route.ordered", route.encode());
        ClusterInfo cluster = new ClusterInfo();
        HashMap<String, BrokerData> byName = new HashMap<>();
        for (BrokerData broker : brokers) {
            byName.put(broker.getBrokerName(), broker);
        }
        cluster.setBrokerAddrTable(byName);
        HashMap<String, java.util.Set<String>> clusters = new HashMap<>();
        clusters.put("DefaultCluster", new HashSet<>(byName.keySet()));
        cluster.setClusterAddrTable(clusters);
        line("cluster", cluster.encode());
        TopicList list = new TopicList();
        list.setTopicList(new HashSet<>(Arrays.asList("TopicTest", "TBW102", "a", "b")));
        line("topicList", list.encode());
    }

    static List<MessageQueue> queueList() {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            queues.add(new MessageQueue("TopicTest", i % 2 == 0 ? "broker-a" : "broker-b", i));
        }
        return queues;
    }

    static void clients() throws Exception {
        LockBatchRequestBody lock = new LockBatchRequestBody();
        lock.setConsumerGroup("cg");
        lock.setClientId("127.0.0.1@1");
        lock.setMqSet(new HashSet<>(queueList()));
        line("lock", lock.encode());
        Map<MessageQueue, Long> offsets = new HashMap<>();
        Map<MessageQueue, TopicOffset> stats = new HashMap<>();
        for (MessageQueue queue : queueList()) {
            offsets.put(queue, 100L + queue.getQueueId());
            TopicOffset offset = new TopicOffset();
            offset.setMaxOffset(queue.getQueueId());
            stats.put(queue, offset);
        }
        ResetOffsetBody reset = new ResetOffsetBody();
        reset.setOffsetTable(offsets);
        line("resetOffsets", reset.encode());
        GetConsumerStatusBody status = new GetConsumerStatusBody();
        status.setMessageQueueTable(offsets);
        line("consumerStatus", status.encode());
        TopicStatsTable table = new TopicStatsTable();
        table.setOffsetTable(new HashMap<>(stats));
        line("topicStats", table.encode());
        HeartbeatData heartbeat = new HeartbeatData();
        heartbeat.setClientID("127.0.0.1@1");
        ConsumerData consumer = new ConsumerData();
        consumer.setGroupName("cg");
        consumer.setConsumeType(ConsumeType.CONSUME_ACTIVELY);
        consumer.setMessageModel(MessageModel.BROADCASTING);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
        SubscriptionData subscription = FilterAPI.buildSubscriptionData("TopicTest", "TagA || TagB || TagC");
        subscription.setSubVersion(1794770446747L);
        consumer.getSubscriptionDataSet().add(subscription);
        heartbeat.getConsumerDataSet().add(consumer);
        ProducerData producer = new ProducerData();
        producer.setGroupName("pg");
        heartbeat.getProducerDataSet().add(producer);
        line("heartbeat", heartbeat.encode());
        CheckClientRequestBody check = new CheckClientRequestBody();
        check.setClientId("127.0.0.1@1");
        check.setGroup("cg");
        check.setSubscriptionData(subscription);
        line("checkClient", check.encode());
    }

    static Map<String, String> properties(int count) {
        Map<String, String> properties = new HashMap<>();
        for (int i = 0; i < count; i++) {
            properties.put("name" + i * 7919, "value" + i);
        }
        properties.put("KEYS", "k1 k2");
        properties.put("TAGS", "标签");
        return properties;
    }

    static void messages() throws Exception {
        for (boolean v6 : new boolean[] {false, true}) {
            MessageExt message = new MessageExt();
            message.setTopic("TopicTest");
            message.setBody("hello".getBytes(StandardCharsets.UTF_8));
            message.setBodyCRC(org.apache.rocketmq.common.UtilAll.crc32(message.getBody()));
            message.setQueueId(3);
            message.setFlag(-9);
            message.setQueueOffset(12345678901L);
            message.setCommitLogOffset(98765432109L);
            message.setBornTimestamp(1794770446747L);
            message.setStoreTimestamp(1794770446748L);
            SocketAddress host = new InetSocketAddress(InetAddress.getByName(v6 ? "2001:db8::1" : "10.1.2.3"), 10911);
            message.setBornHost(host);
            message.setStoreHost(host);
            if (v6) {
                message.setSysFlag(MessageSysFlag.BORNHOST_V6_FLAG | MessageSysFlag.STOREHOSTADDRESS_V6_FLAG);
            }
            message.setReconsumeTimes(2);
            message.setPreparedTransactionOffset(77L);
            org.apache.rocketmq.common.message.MessageAccessor.setProperties(message, properties(3));
            String name = v6 ? "V6" : "V4";
            line("record" + name, MessageDecoder.encode(message, false));
            line("offsetId" + name, MessageDecoder.createMessageId(host, 98765432109L));
        }
        for (int count : new int[] {1, 10, 11, 12, 30, 100}) {
            line("properties" + count, MessageDecoder.messageProperties2String(properties(count)));
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Message message = new Message("TopicTest", "Tag" + i, "key" + i, ("body" + i).getBytes(StandardCharsets.UTF_8));
            message.setFlag(i);
            batch.add(message);
        }
        line("batch", MessageDecoder.encodeMessages(batch));
        for (String text : Arrays.asList("", "TagA", "标签", "\ud83d\ude00", "polygenelubricants", "AaAaAa")) {
            line("hash:" + text, Integer.toString(text.hashCode()));
        }
    }

    static void fill(Object header) throws Exception {
        for (Method method : header.getClass().getMethods()) {
            if (!method.getName().startsWith("set") || method.getParameterCount() != 1 || method.getDeclaringClass() == Object.class) {
                continue;
            }
            Class<?> type = method.getParameterTypes()[0];
            String name = method.getName().substring(3);
            if (type == String.class) {
                method.invoke(header, "some \"" + name + "\"");
            } else if (type == Integer.class || type == int.class) {
                method.invoke(header, name.length());
            } else if (type == Long.class || type == long.class) {
                method.invoke(header, 1794770446000L + name.length());
            } else if (type == Boolean.class || type == boolean.class) {
                method.invoke(header, true);
            }
        }
    }

    static void headers() throws Exception {
        String[] names = {
            "10 SendMessageRequestHeader", "310 SendMessageRequestHeaderV2", "11 PullMessageRequestHeader", "12 QueryMessageRequestHeader",
            "14 QueryConsumerOffsetRequestHeader", "15 UpdateConsumerOffsetRequestHeader", "17 CreateTopicRequestHeader",
            "29 SearchOffsetRequestHeader", "30 GetMaxOffsetRequestHeader", "31 GetMinOffsetRequestHeader",
            "32 GetEarliestMsgStoretimeRequestHeader", "33 ViewMessageRequestHeader", "35 UnregisterClientRequestHeader",
            "36 ConsumerSendMsgBackRequestHeader", "37 EndTransactionRequestHeader", "38 GetConsumerListByGroupRequestHeader",
            "39 CheckTransactionStateRequestHeader", "40 NotifyConsumerIdsChangedRequestHeader", "220 ResetOffsetRequestHeader",
            "221 GetConsumerStatusRequestHeader", "307 GetConsumerRunningInfoRequestHeader", "309 ConsumeMessageDirectlyResultRequestHeader",
            "326 ReplyMessageRequestHeader", "105 namesrv.GetRouteInfoRequestHeader", "103 namesrv.RegisterBrokerRequestHeader",
            "104 namesrv.UnRegisterBrokerRequestHeader", "322 namesrv.QueryDataVersionRequestHeader", "100 namesrv.PutKVConfigRequestHeader",
            "101 namesrv.GetKVConfigRequestHeader", "102 namesrv.DeleteKVConfigRequestHeader", "219 namesrv.GetKVListByNamespaceRequestHeader",
            "205 namesrv.WipeWritePermOfBrokerRequestHeader", "327 namesrv.AddWritePermOfBrokerRequestHeader",
            "216 namesrv.DeleteTopicFromNamesrvRequestHeader", "224 GetTopicsByClusterRequestHeader", "202 GetTopicStatsInfoRequestHeader",
            "203 GetConsumerConnectionListRequestHeader", "204 GetProducerConnectionListRequestHeader", "208 GetConsumeStatsRequestHeader",
            "222 ResetOffsetRequestHeader", "223 GetConsumerStatusRequestHeader"};
        String[] answers = {
            "10 SendMessageResponseHeader", "11 PullMessageResponseHeader", "12 QueryMessageResponseHeader", "14 QueryConsumerOffsetResponseHeader",
            "15 UpdateConsumerOffsetResponseHeader", "29 SearchOffsetResponseHeader", "30 GetMaxOffsetResponseHeader", "31 GetMinOffsetResponseHeader",
            "32 GetEarliestMsgStoretimeResponseHeader", "35 UnregisterClientResponseHeader", "38 GetConsumerListByGroupResponseHeader",
            "103 namesrv.RegisterBrokerResponseHeader", "322 namesrv.QueryDataVersionResponseHeader", "101 namesrv.GetKVConfigResponseHeader",
            "205 namesrv.WipeWritePermOfBrokerResponseHeader", "327 namesrv.AddWritePermOfBrokerResponseHeader"};
        for (SerializeType serializer : SerializeType.values()) {
            for (String entry : names) {
                String[] words = entry.split(" ");
                CommandCustomHeader header = header(words[1]);
                RemotingCommand command = RemotingCommand.createRequestCommand(Integer.parseInt(words[0]), header);
                frame("request." + words[0] + "." + serializer, command, serializer);
            }
            for (String entry : answers) {
                String[] words = entry.split(" ");
                RemotingCommand command = RemotingCommand.createResponseCommand(header(words[1]).getClass());
                fill(command.readCustomHeader());
                command.setCode(0);
                frame("answer." + words[0] + "." + serializer, command, serializer);
            }
        }
    }

    static CommandCustomHeader header(String name) throws Exception {
        Object header = Class.forName("org.apache.rocketmq.common.protocol.header." + name).getDeclaredConstructor().newInstance();
        fill(header);
        return (CommandCustomHeader) header;
    }

    static void frame(String name, RemotingCommand command, SerializeType serializer) {
        command.setOpaque(7);
        command.setSerializeTypeCurrentRPC(serializer);
        ByteBuf buffer = Unpooled.buffer();
        command.fastEncodeHeader(buffer);
        byte[] bytes = new byte[buffer.readableBytes()];
        buffer.readBytes(bytes);
        line(name, bytes);
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("rocketmq.remoting.version", "409");
        fastjson();
        tables();
        routes();
        clients();
        messages();
        headers();
    }
}
