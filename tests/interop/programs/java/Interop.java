import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The Java driver: commands on standard input, JSON lines on standard output (see ../../README.md). */
public class Interop {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, DefaultMQPushConsumer> MEMBERS = new HashMap<>();
    private static String nameServer;
    private static DefaultMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        nameServer = arguments[0];
        producer = new DefaultMQProducer("interop_java_producer");
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("producer");
        producer.start();
        print("{\"event\":\"ready\",\"can\":[\"create\",\"sync\",\"async\",\"oneway\",\"batch\",\"orderly\",\"takeover\",\"ask\",\"litepull\"]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("quit")) {
                break;
            }
            try {
                run(line.split(" "));
                print("{\"event\":\"done\",\"command\":" + quote(line) + "}");
            } catch (Exception error) {
                error.printStackTrace();
                print("{\"event\":\"failed\",\"command\":" + quote(line) + ",\"error\":" + quote(error.toString()) + "}");
            }
        }
        for (DefaultMQPushConsumer member : MEMBERS.values()) {
            member.shutdown();
        }
        producer.shutdown();
        print("{\"event\":\"stopped\"}");
        System.exit(0); // the orderly consumer of 5.x leaves a thread behind after its shutdown
    }

    private static void run(String[] words) throws Exception {
        switch (words[0]) {
            case "create":
                Topics.create(producer, words[1], Integer.parseInt(words[2]));
                break;
            case "send":
                send(words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
                break;
            case "join":
                join(words[1], words[2], words[3], words[4].equals("orderly"), words[5]);
                break;
            case "litepull":
                litePull(words[1], words[2], words[3], Integer.parseInt(words[4]));
                break;
            case "ask":
                ask(words[1], words[2], words[3], words[4], Long.parseLong(words[5]));
                break;
            case "leave":
                MEMBERS.remove(words[1]).shutdown();
                break;
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private static Message message(String topic, int index) {
        String text = "body " + index + " é中" + (index % 100 == 7 ? "x".repeat(5000) : "");
        Message message = new Message(topic, "tag-" + index % 3, "key-" + index + " all", text.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("index", String.valueOf(index));
        message.putUserProperty("note", "naïve 中文 " + index);
        return message;
    }

    private static void send(String mode, String topic, int first, int count) throws Exception {
        switch (mode) {
            case "sync":
                for (int index = first; index < first + count; index++) {
                    sent(mode, index, producer.send(message(topic, index)));
                }
                break;
            case "async":
                sendAsync(topic, first, count);
                break;
            case "oneway":
                for (int index = first; index < first + count; index++) {
                    producer.sendOneway(message(topic, index));
                }
                break;
            case "batch":
                List<Message> batch = new ArrayList<>();
                for (int index = first; index < first + count; index++) {
                    batch.add(message(topic, index));
                }
                sent(mode, first, producer.send(batch));
                break;
            default:
                throw new IllegalArgumentException("unknown mode " + mode);
        }
    }

    private static void sendAsync(String topic, int first, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        List<Throwable> failures = java.util.Collections.synchronizedList(new ArrayList<>());
        for (int index = first; index < first + count; index++) {
            final int which = index;
            producer.send(message(topic, index), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent("async", which, result);
                    left.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    failures.add(error);
                    left.countDown();
                }
            });
        }
        if (!left.await(30, TimeUnit.SECONDS) || !failures.isEmpty()) {
            throw new IllegalStateException(left.getCount() + " unanswered, failures " + failures);
        }
    }

    private static void join(String name, String group, String topic, boolean orderly, String tags) throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(name);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.setConsumeThreadMin(2);
        member.setConsumeThreadMax(2);
        member.subscribe(topic, tags);
        if (orderly) {
            member.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(message -> consumed(name, context.getMessageQueue(), message));
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(message -> consumed(name, context.getMessageQueue(), message));
                messages.forEach(Interop::waitForTheDatabase);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        member.start();
        MEMBERS.put(name, member);
    }

    /** Hang, for the longest time, if a message says so. */
    private static void waitForTheDatabase(MessageExt message) {
        if (message.getUserProperty("hang") != null) {
            try {
                TimeUnit.DAYS.sleep(1);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static void litePull(String name, String group, String topic, int count) throws Exception {
        DefaultLitePullConsumer member = new DefaultLitePullConsumer(group);
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(name);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.setAutoCommit(false);
        member.subscribe(topic, "*");
        member.start();
        long deadline = System.currentTimeMillis() + 30_000;
        for (int seen = 0; seen < count && System.currentTimeMillis() < deadline; ) {
            for (MessageExt message : member.poll(500)) {
                consumed(name, new MessageQueue(topic, message.getBrokerName(), message.getQueueId()), message);
                seen++;
            }
        }
        member.commitSync();
        member.shutdown();
    }

    /** Ask what a client can ask about a topic's first queue, by a key, and by the two ids of a message. */
    private static void ask(String topic, String key, String offsetId, String id, long time) throws Exception {
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        String found = producer.queryMessage(topic, key, 10, 0, Long.MAX_VALUE).getMessageList().stream()
            .map(message -> message.getProperty("index")).collect(java.util.stream.Collectors.joining(","));
        print("{\"event\":\"answer\",\"broker\":" + quote(queue.getBrokerName()) + ",\"queue\":" + queue.getQueueId()
            + ",\"min\":" + producer.minOffset(queue) + ",\"max\":" + producer.maxOffset(queue)
            + ",\"earliest\":" + producer.earliestMsgStoreTime(queue)
            + ",\"by_time\":" + producer.searchOffset(queue, time)
            + ",\"by_key\":[" + found + "],\"by_offset_id\":" + producer.viewMessage(topic, offsetId).getProperty("index")
            + ",\"by_id\":" + producer.viewMessage(topic, id).getProperty("index") + "}");
    }

    private static void sent(String mode, int index, SendResult result) {
        MessageQueue queue = result.getMessageQueue();
        print("{\"event\":\"sent\",\"mode\":" + quote(mode) + ",\"index\":" + index
            + ",\"status\":" + quote(result.getSendStatus().name()) + ",\"id\":" + quote(result.getMsgId())
            + ",\"offset_id\":" + quote(result.getOffsetMsgId()) + ",\"broker\":" + quote(queue.getBrokerName())
            + ",\"queue\":" + queue.getQueueId() + ",\"offset\":" + result.getQueueOffset() + "}");
    }

    private static void consumed(String member, MessageQueue queue, MessageExt message) {
        StringBuilder properties = new StringBuilder();
        for (Map.Entry<String, String> entry : new TreeMap<>(message.getProperties()).entrySet()) {
            properties.append(properties.length() == 0 ? "" : ",").append(quote(entry.getKey())).append(':').append(quote(entry.getValue()));
        }
        print("{\"event\":\"consumed\",\"member\":" + quote(member) + ",\"topic\":" + quote(message.getTopic())
            + ",\"broker\":" + quote(queue.getBrokerName()) + ",\"queue\":" + message.getQueueId()
            + ",\"offset\":" + message.getQueueOffset() + ",\"position\":" + message.getCommitLogOffset()
            + ",\"id\":" + quote(message.getMsgId()) + ",\"offset_id\":" + quote(((MessageClientExt) message).getOffsetMsgId())
            + ",\"times\":" + message.getReconsumeTimes() + ",\"keys\":" + quote(message.getKeys())
            + ",\"tags\":" + quote(message.getTags()) + ",\"body\":" + quote(new String(message.getBody(), StandardCharsets.UTF_8))
            + ",\"properties\":{" + properties + "}}");
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }

    private static String quote(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                quoted.append('\\').append(letter);
            } else if (letter < ' ') {
                quoted.append(String.format("\\u%04x", (int) letter));
            } else {
                quoted.append(letter);
            }
        }
        return quoted.append('"').toString();
    }
}
