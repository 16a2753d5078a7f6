import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Messages of every kind. What becomes of a message is written in it: its body is words with slashes between them, and
 * word k says what is done with it the k-th time; the last word holds for all times after it.
 *
 * <p>A consumer knows {@code done}, {@code reply}, {@code later}, {@code soon} (at delay level 1), {@code never},
 * {@code null} and {@code throw}; a member of a group of transactions {@code commit}, {@code rollback} and {@code unknown}, of which the
 * first is for its own part and the others are answers to the broker. Other words are {@code done}.
 *
 * <p>Commands: {@code join NAME GROUP TOPIC concurrent|orderly TAGS LIMIT TOGETHER}, {@code leave NAME},
 * {@code send TOPIC BODY [NAME=VALUE…]}, {@code request TOPIC BODY}, {@code order TOPIC KEY BODY}, {@code batch TOPIC COUNT SIZE},
 * {@code split TOPIC COUNT SIZE LIMIT}, {@code produce NAME GROUP TOPIC}, {@code transact NAME TOPIC BODY [NAME=VALUE…]},
 * {@code dismiss NAME}, {@code quit}.
 */
public class Kinds {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final int PATIENT_MS = 30_000;
    /** A broker finds whom a reply is for by the client's id: two programs must not have the same. */
    private static final long PROCESS = ProcessHandle.current().pid();
    private static final Map<String, DefaultMQPushConsumer> MEMBERS = new HashMap<>();
    private static final Map<String, TransactionMQProducer> PRODUCERS = new HashMap<>();
    private static final Map<String, Integer> CHECKS = new ConcurrentHashMap<>();
    private static String nameServer;
    private static DefaultMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        nameServer = arguments[0];
        producer = started(new DefaultMQProducer("kinds_producer"), "sender");
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            try {
                perform(line.split(" "));
                event("done");
            } catch (Exception error) {
                event("failed", "error", error.toString());
            }
        }
        MEMBERS.values().forEach(DefaultMQPushConsumer::shutdown);
        PRODUCERS.values().forEach(TransactionMQProducer::shutdown);
        producer.shutdown();
        event("stopped");
        System.exit(0);
    }

    private static void perform(String[] words) throws Exception {
        switch (words[0]) {
            case "join":
                join(words);
                break;
            case "leave":
                MEMBERS.remove(words[1]).shutdown();
                break;
            case "send":
                sent(producer.send(message(words[1], words[2], words, 3)));
                break;
            case "order":
                Message keyed = message(words[1], words[3], words, 4);
                keyed.setKeys(words[2]);
                sent(producer.send(keyed, new SelectMessageQueueByHash(), words[2]));
                break;
            case "request":
                Message reply = producer.request(message(words[1], words[2], words, 3), PATIENT_MS);
                event("reply", "body", text(reply));
                break;
            case "batch":
                batch(messages(words));
                break;
            case "split":
                split(messages(words), Integer.parseInt(words[4]));
                break;
            case "produce":
                produce(words[1], words[2], words[3]);
                break;
            case "transact":
                transact(PRODUCERS.get(words[1]), message(words[2], words[3], words, 4));
                break;
            case "dismiss":
                PRODUCERS.remove(words[1]).shutdown();
                break;
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    // Senders

    private static <P extends DefaultMQProducer> P started(P one, String name) throws Exception {
        one.setNamesrvAddr(nameServer);
        one.setInstanceName(name + "-" + PROCESS);
        one.setSendMsgTimeout(PATIENT_MS);
        one.setMqClientApiTimeout(PATIENT_MS);
        one.setMaxMessageSize(16 * 1024 * 1024); // what is too large is for the broker to say
        one.start();
        return one;
    }

    /** Properties that are the system's own are set as they are. */
    private static Message message(String topic, String body, String[] words, int from) {
        Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        for (int at = from; at < words.length; at++) {
            String[] pair = words[at].split("=", 2);
            MessageAccessor.putProperty(message, pair[0], pair[1]);
        }
        return message;
    }

    private static List<Message> messages(String[] words) {
        List<Message> messages = new ArrayList<>();
        for (int index = 0; index < Integer.parseInt(words[2]); index++) {
            String filling = "x".repeat(Integer.parseInt(words[3]));
            messages.add(message(words[1], index + "/" + filling, new String[] {"TAGS=tag-" + index % 2, "KEYS=key-" + index}, 0));
        }
        return messages;
    }

    private static void batch(List<Message> messages) throws Exception {
        try {
            sent(producer.send(messages));
        } catch (MQBrokerException refusal) {
            event("refused", "code", refusal.getResponseCode());
        }
    }

    /** The rule of RocketMQ's documentation: topic, body, properties, and 20 bytes for each message. */
    private static void split(List<Message> messages, int limit) throws Exception {
        List<Message> part = new ArrayList<>();
        int size = 0;
        for (Message message : messages) {
            int own = message.getTopic().length() + message.getBody().length + 20;
            for (Map.Entry<String, String> entry : message.getProperties().entrySet()) {
                own += entry.getKey().length() + entry.getValue().length();
            }
            if (size + own > limit && !part.isEmpty()) {
                batch(part);
                part = new ArrayList<>();
                size = 0;
            }
            part.add(message);
            size += own;
        }
        batch(part);
    }

    private static void produce(String name, String group, String topic) throws Exception {
        TransactionMQProducer member = new TransactionMQProducer(group);
        member.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return fate(message, 0);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int times = CHECKS.merge(message.getTransactionId(), 1, Integer::sum);
                event("checked", "member", name, "topic", message.getTopic(), "body", text(message),
                    "properties", message.getProperties());
                return fate(message, times);
            }
        });
        PRODUCERS.put(name, started(member, name));
        // A broker knows a member from its heartbeats, and it gets them once a topic is known that it has.
        MQClientInstance client = member.getDefaultMQProducerImpl().getMqClientFactory();
        client.updateTopicRouteInfoFromNameServer(topic);
        client.sendHeartbeatToAllBrokerWithLock();
    }

    private static void transact(TransactionMQProducer member, Message message) {
        try {
            sent(member.sendMessageInTransaction(message, null));
        } catch (MQClientException refusal) {
            event("refused", "says", refusal.getErrorMessage());
        }
    }

    private static LocalTransactionState fate(Message message, int times) {
        switch (word(message, times)) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }

    // Consumers

    private static void join(String[] words) throws Exception {
        String name = words[1];
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(words[2]);
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(name + "-" + PROCESS);
        member.setMqClientApiTimeout(PATIENT_MS);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.setConsumeThreadMin(2);
        member.setConsumeThreadMax(2);
        // The topic of retries is made by the member's first heartbeat: it learns of it soon, and not after 30 s.
        member.setPollNameServerInterval(1_000);
        member.setHeartbeatBrokerInterval(1_000);
        member.setPersistConsumerOffsetInterval(500);
        member.setAwaitTerminationMillisWhenShutdown(5_000);
        member.setSuspendCurrentQueueTimeMillis(50);
        member.setMaxReconsumeTimes(Integer.parseInt(words[6]));
        member.setConsumeMessageBatchMaxSize(Integer.parseInt(words[7]));
        String wanted = words[5].replace(',', ' ');
        if (wanted.startsWith("sql:")) {
            member.subscribe(words[3], MessageSelector.bySql(wanted.substring(4)));
        } else {
            member.subscribe(words[3], wanted);
        }
        if (words[4].equals("orderly")) {
            member.registerMessageListener((MessageListenerOrderly) (messages, context) -> inOrder(name, messages, context));
        } else {
            member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> concurrently(name, messages, context));
        }
        member.start();
        MEMBERS.put(name, member);
    }

    private static ConsumeOrderlyStatus inOrder(String name, List<MessageExt> messages, ConsumeOrderlyContext context) {
        return consume(name, messages).equals("done")
            ? ConsumeOrderlyStatus.SUCCESS
            : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
    }

    private static ConsumeConcurrentlyStatus concurrently(String name, List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        switch (consume(name, messages)) {
            case "done":
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            case "soon":
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            case "never":
                context.setDelayLevelWhenNextConsume(-1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            case "null":
                return null;
            case "throw":
                throw new IllegalStateException("as the message says");
            default:
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }
    }

    /** Return what is to be done with all of these, which is what the first says that wants anything. */
    private static String consume(String name, List<MessageExt> messages) {
        String verdict = "done";
        for (MessageExt message : messages) {
            event("consumed", "member", name, "topic", message.getTopic(), "queue", message.getQueueId(),
                "offset", message.getQueueOffset(), "times", message.getReconsumeTimes(), "together", messages.size(),
                "body", text(message), "stored", message.getStoreTimestamp(), "properties", message.getProperties());
            String word = word(message, message.getReconsumeTimes());
            if (word.equals("reply")) {
                reply(message);
            }
            if (verdict.equals("done") && word.matches("later|soon|never|null|throw")) {
                verdict = word;
            }
        }
        return verdict;
    }

    private static void reply(MessageExt message) {
        try {
            producer.send(MessageUtil.createReplyMessage(message, (text(message) + "!").getBytes(StandardCharsets.UTF_8)));
        } catch (Exception error) {
            event("failed", "error", error.toString());
        }
    }

    private static String word(Message message, int times) {
        String[] words = text(message).split("/");
        return words[Math.min(times, words.length - 1)];
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    // What is printed

    private static void sent(SendResult result) {
        event("sent", "status", result.getSendStatus().name(), "id", result.getMsgId(), "offset_id", result.getOffsetMsgId(),
            "queue", result.getMessageQueue().getQueueId(), "offset", result.getQueueOffset(),
            "transaction", result.getTransactionId());
    }

    private static void event(String kind, Object... pairs) {
        StringBuilder line = new StringBuilder("{\"event\":").append(quote(kind));
        for (int at = 0; at < pairs.length; at += 2) {
            line.append(',').append(quote(pairs[at].toString())).append(':').append(json(pairs[at + 1]));
        }
        print(line.append('}').toString());
    }

    private static String json(Object value) {
        if (value instanceof Number || value == null) {
            return String.valueOf(value);
        }
        if (!(value instanceof Map)) {
            return quote(value.toString());
        }
        List<String> parts = new ArrayList<>();
        new TreeMap<>((Map<?, ?>) value).forEach((name, each) -> parts.add(quote(name.toString()) + ":" + json(each)));
        return "{" + String.join(",", parts) + "}";
    }

    private static String quote(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
