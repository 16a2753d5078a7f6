import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer that sends on and on, and a consumer in order, while brokers change their roles.
 *
 * <p>The application sends a message again until it is acknowledged, and only then the next, as one does who wants
 * order. Commands: {@code produce GROUP TOPIC QUEUES PAUSE_MS}, {@code rest}, {@code join GROUP TOPIC}, {@code quit}. The
 * second argument is how often the name server is asked, in milliseconds.
 */
public class Switched {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static volatile boolean isResting;
    private static Thread sender;
    private static DefaultMQProducer producer;
    private static DefaultMQPushConsumer consumer;

    public static void main(String[] arguments) throws Exception {
        int pollMs = Integer.parseInt(arguments[1]);
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("produce")) {
                produce(arguments[0], pollMs, words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]));
            } else if (words[0].equals("rest")) {
                isResting = true;
                sender.join();
            } else {
                join(arguments[0], pollMs, words[1], words[2]);
            }
            print("{\"event\":\"done\"}");
        }
        if (producer != null) {
            producer.shutdown();
        }
        if (consumer != null) {
            consumer.shutdown();
        }
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void produce(
        String nameServer, int pollMs, String group, String topic, int queues, long pauseMs) throws Exception {
        producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("switched-producer");
        producer.setPollNameServerInterval(pollMs);
        producer.start();
        sender = new Thread(() -> {
            for (int number = 0; !isResting; number++) {
                send(topic, number, number % queues);
                pause(pauseMs);
            }
        });
        sender.setDaemon(true);
        sender.start();
    }

    private static void send(String topic, int number, int queue) {
        byte[] body = ("java-" + number).getBytes(StandardCharsets.UTF_8);
        for (int tries = 1; ; tries++) {
            String fault;
            try {
                SendResult result =
                    producer.send(new Message(topic, body), (all, message, wanted) -> all.get((Integer) wanted), queue);
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    print("{\"event\":\"sent\",\"number\":" + number + ",\"queue\":" + queue + ",\"offset\":"
                        + result.getQueueOffset() + ",\"offset_id\":\"" + result.getOffsetMsgId() + "\",\"at\":" + micros() + "}");
                    return;
                }
                fault = result.getSendStatus().name();
            } catch (Exception error) {
                fault = error.getClass().getSimpleName();
            }
            if (tries == 1) {
                print("{\"event\":\"refused\",\"number\":" + number + ",\"fault\":\"" + fault + "\",\"at\":" + micros() + "}");
            }
            pause(20);
        }
    }

    private static void join(String nameServer, int pollMs, String group, String topic) throws Exception {
        consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("switched-consumer");
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(pollMs);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setPullTimeDelayMillsWhenException(500);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            consume(messages);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
    }

    private static void consume(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            print("{\"event\":\"consumed\",\"queue\":" + message.getQueueId() + ",\"offset\":" + message.getQueueOffset()
                + ",\"body\":\"" + new String(message.getBody(), StandardCharsets.UTF_8) + "\"}");
        }
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
