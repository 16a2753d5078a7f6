import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Members of a group of RocketMQ 5 that let the broker share queues out: they pull or pop, as the broker says.
 *
 * <p>Commands: {@code join NAME GROUP TOPIC TAGS FAILURES}, {@code leave NAME}, {@code quit}. Each message fails so
 * often before it is consumed.
 */
public class PopMembers {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, DefaultMQPushConsumer> MEMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("join")) {
                join(arguments[0], words[1], words[2], words[3], words[4], Integer.parseInt(words[5]));
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
        String nameServer, String name, String group, String topic, String tags, int failures) throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(name);
        member.setClientRebalance(false);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.setPopInvisibleTime(30_000);
        member.setConsumeThreadMin(4);
        member.setConsumeThreadMax(4);
        member.setAwaitTerminationMillisWhenShutdown(5_000);
        member.setHeartbeatBrokerInterval(1_000);
        member.setPollNameServerInterval(1_000);
        member.setPullTimeDelayMillsWhenException(500);
        member.subscribe(topic, tags);
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
            consume(name, messages, failures)
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        member.start();
        MEMBERS.put(name, member);
    }

    private static boolean consume(String name, List<MessageExt> messages, int failures) {
        boolean succeeds = true;
        for (MessageExt message : messages) {
            print("{\"event\":\"consumed\",\"member\":\"" + name
                + "\",\"body\":\"" + new String(message.getBody(), StandardCharsets.UTF_8)
                + "\",\"times\":" + message.getReconsumeTimes()
                + ",\"topic\":\"" + message.getTopic()
                + "\",\"popped\":" + (message.getProperty(MessageConst.PROPERTY_POP_CK) != null) + "}");
            succeeds &= message.getReconsumeTimes() >= failures;
        }
        return succeeds;
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
