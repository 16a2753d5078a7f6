import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Members of a group that say when they began with a message and when they were done with it.
 *
 * <p>Commands: {@code join NAME GROUP TOPIC concurrent|orderly HOLD_MS}, {@code leave NAME}, {@code quit}.
 */
public class Members {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, DefaultMQPushConsumer> MEMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("join")) {
                join(arguments[0], words[1], words[2], words[3], words[4].equals("orderly"), Long.parseLong(words[5]));
            } else {
                MEMBERS.remove(words[1]).shutdown();
            }
            print("{\"event\":\"done\"}");
        }
        MEMBERS.values().forEach(DefaultMQPushConsumer::shutdown);
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void join(
        String nameServer, String name, String group, String topic, boolean orderly, long holdMs) throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(name);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.setConsumeThreadMin(4);
        member.setConsumeThreadMax(4);
        // What a listener has begun is finished before its member is gone.
        member.setAwaitTerminationMillisWhenShutdown(5_000);
        member.setPersistConsumerOffsetInterval(500);
        // A broker that was away is found again, and finds its members again, within a second and not within 30.
        member.setHeartbeatBrokerInterval(1_000);
        member.setPollNameServerInterval(1_000);
        member.setPullTimeDelayMillsWhenException(500);
        member.subscribe(topic, "*");
        if (orderly) {
            member.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                consume(name, messages, holdMs);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                consume(name, messages, holdMs);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        member.start();
        MEMBERS.put(name, member);
    }

    private static void consume(String name, List<MessageExt> messages, long holdMs) {
        for (MessageExt message : messages) {
            long began = micros();
            try {
                Thread.sleep(holdMs);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            print("{\"event\":\"consumed\",\"member\":\"" + name + "\",\"queue\":" + message.getQueueId()
                + ",\"offset\":" + message.getQueueOffset() + ",\"times\":" + message.getReconsumeTimes()
                + ",\"began\":" + began + ",\"ended\":" + micros() + "}");
        }
    }

    private static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
