import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Drives the gRPC SDK for Java: the commands are those of {@code tests/interop/README.md}, "SDKs of 5.x". */
public class Sdk {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Map<String, Producer> PRODUCERS = new HashMap<>();
    private static final Map<String, SimpleConsumer> SIMPLE = new HashMap<>();
    private static final Map<String, AutoCloseable> CLIENTS = new HashMap<>();
    private static final Map<String, MessageView> HELD = new HashMap<>();
    private static ClientConfiguration configuration;

    public static void main(String[] arguments) throws Exception {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(arguments[0]).enableSsl(arguments[1].equals("tls"));
        if (!arguments[2].equals("-")) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(arguments[2], arguments[3]));
        }
        configuration = builder.build();
        print("{\"event\":\"ready\",\"can\":[\"fifo\",\"delay\",\"recall\",\"transaction\",\"simple\",\"hide\",\"push\"]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            try {
                perform(line.split(" "));
                print("{\"event\":\"done\"}");
            } catch (Throwable error) {
                print("{\"event\":\"failed\",\"error\":" + text(error.toString()) + "}");
            }
        }
        for (AutoCloseable client : CLIENTS.values()) {
            client.close();
        }
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void perform(String[] words) throws Exception {
        switch (words[0]) {
            case "producer":
                produce(words[1], words[2].split(","));
                break;
            case "send":
                send(words);
                break;
            case "transact":
                transact(words[1], words[2], words[3], words[4]);
                break;
            case "recall":
                String id = String.valueOf(PRODUCERS.get(words[1]).recallMessage(words[2], words[3]).getMessageId());
                print("{\"event\":\"recalled\",\"id\":" + text(id) + "}");
                break;
            case "simple":
                SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
                    .setClientConfiguration(configuration).setConsumerGroup(words[2])
                    .setAwaitDuration(Duration.ofSeconds(5))
                    .setSubscriptionExpressions(Collections.singletonMap(words[3], new FilterExpression(words[4])))
                    .build();
                SIMPLE.put(words[1], consumer);
                CLIENTS.put(words[1], consumer);
                break;
            case "receive":
                List<MessageView> found = SIMPLE.get(words[1])
                    .receive(Integer.parseInt(words[2]), Duration.ofSeconds(Long.parseLong(words[3])));
                for (MessageView message : found) {
                    HELD.put(message.getMessageId().toString(), message);
                    show("received", words[1], message);
                }
                break;
            case "ack":
                SIMPLE.get(words[1]).ack(HELD.get(words[2]));
                break;
            case "hide":
                SIMPLE.get(words[1])
                    .changeInvisibleDuration(HELD.get(words[2]), Duration.ofSeconds(Long.parseLong(words[3])));
                break;
            case "push":
                push(words[1], words[2], words[3], words[4]);
                break;
            default:
                CLIENTS.remove(words[1]).close();
        }
    }

    private static void produce(String name, String[] topics) throws Exception {
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topics)
            .setTransactionChecker(message -> {
                show("checked", name, message);
                String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
                return body.startsWith("commit") ? TransactionResolution.COMMIT
                    : body.startsWith("rollback") ? TransactionResolution.ROLLBACK : TransactionResolution.UNKNOWN;
            }).build();
        PRODUCERS.put(name, producer);
        CLIENTS.put(name, producer);
    }

    private static MessageBuilder message(String topic, String body, int index) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8))
            .setTag("tag-" + index % 2).setKeys(body, "all").addProperty("note", "naïve 中文 " + index);
    }

    private static void send(String[] words) throws Exception {
        Producer producer = PRODUCERS.get(words[1]);
        for (int index = 0; index < Integer.parseInt(words[5]); index++) {
            String body = words[4] + "-" + index;
            MessageBuilder builder = message(words[3], body, index);
            if (words[2].equals("fifo")) {
                builder.setMessageGroup(words[6]);
            } else if (words[2].equals("delay")) {
                builder.setDeliveryTimestamp(System.currentTimeMillis() + Long.parseLong(words[6]));
            }
            SendReceipt receipt = producer.send(builder.build());
            String handle = receipt.getRecallHandle();
            sent(body, receipt, handle == null || handle.isEmpty() ? "null" : text(handle));
        }
    }

    private static void transact(String name, String topic, String body, String end) throws Exception {
        Producer producer = PRODUCERS.get(name);
        Transaction transaction = producer.beginTransaction();
        Message half = message(topic, body, 0).build();
        sent(body, producer.send(half, transaction), "null");
        if (end.equals("commit")) {
            transaction.commit();
        } else if (end.equals("rollback")) {
            transaction.rollback();
        }
    }

    private static void push(String name, String group, String topic, String tags) throws Exception {
        CLIENTS.put(name, PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression(tags)))
            .setMessageListener(message -> {
                show("consumed", name, message);
                String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
                return body.startsWith("fails") && message.getDeliveryAttempt() == 1
                    ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build());
    }

    private static void sent(String body, SendReceipt receipt, String handle) {
        print("{\"event\":\"sent\",\"body\":" + text(body) + ",\"id\":" + text(receipt.getMessageId().toString())
            + ",\"recall\":" + handle + "}");
    }

    private static void show(String event, String member, MessageView message) {
        List<String> keys = new ArrayList<>();
        message.getKeys().forEach(key -> keys.add(text(key)));
        List<String> properties = new ArrayList<>();
        message.getProperties().forEach((key, value) -> properties.add(text(key) + ":" + text(value)));
        print("{\"event\":\"" + event + "\",\"member\":" + text(member)
            + ",\"body\":" + text(StandardCharsets.UTF_8.decode(message.getBody()).toString())
            + ",\"id\":" + text(message.getMessageId().toString()) + ",\"topic\":" + text(message.getTopic())
            + ",\"tag\":" + message.getTag().map(Sdk::text).orElse("null")
            + ",\"keys\":[" + String.join(",", keys) + "],\"properties\":{" + String.join(",", properties) + "}"
            + ",\"group\":" + message.getMessageGroup().map(Sdk::text).orElse("null")
            + ",\"due\":" + message.getDeliveryTimestamp().map(String::valueOf).orElse("null")
            + ",\"attempt\":" + message.getDeliveryAttempt() + ",\"at\":" + System.currentTimeMillis() + "}");
    }

    private static String text(String value) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char one : value.toCharArray()) {
            if (one == '"' || one == '\\') {
                quoted.append('\\').append(one);
            } else if (one < ' ') {
                quoted.append(String.format("\\u%04x", (int) one));
            } else {
                quoted.append(one);
            }
        }
        return quoted.append('"').toString();
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
