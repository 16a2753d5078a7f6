import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Messages with any delay, and their recall, by a client of 5.x.
 *
 * <p>Commands: {@code send TOPIC BODY ms|sec|at NUMBER}, {@code recall TOPIC HANDLE}, {@code join GROUP TOPIC},
 * {@code quit}. A number for {@code at} is a moment in milliseconds.
 */
public class Delayed {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final List<DefaultMQPushConsumer> MEMBERS = new ArrayList<>();
    private static DefaultMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        producer = new DefaultMQProducer("delayed_producer");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String[] words = line.split(" ");
            try {
                perform(arguments[0], words);
            } catch (MQBrokerException error) {
                print("{\"event\":\"refused\",\"code\":" + error.getResponseCode() + ",\"says\":\""
                    + escaped(error.getErrorMessage()) + "\"}");
            }
            print("{\"event\":\"done\"}");
        }
        MEMBERS.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void perform(String nameServer, String[] words) throws Exception {
        if (words[0].equals("send")) {
            send(words[1], words[2], words[3], Long.parseLong(words[4]));
        } else if (words[0].equals("recall")) {
            String id = producer.recallMessage(words[1], words[2]);
            print("{\"event\":\"recalled\",\"id\":\"" + id + "\"}");
        } else {
            join(nameServer, words[1], words[2]);
        }
    }

    private static void send(String topic, String body, String how, long number) throws Exception {
        Message message = new Message(topic, "timed", "key-" + body, body.getBytes(StandardCharsets.UTF_8));
        if (how.equals("ms")) {
            message.setDelayTimeMs(number);
        } else if (how.equals("sec")) {
            message.setDelayTimeSec(number);
        } else {
            message.setDeliverTimeMs(number);
        }
        SendResult result = producer.send(message);
        String handle = result.getRecallHandle();
        print("{\"event\":\"sent\",\"id\":\"" + result.getMsgId() + "\",\"status\":\"" + result.getSendStatus()
            + "\",\"handle\":" + (handle == null ? "null" : "\"" + handle + "\"") + "}");
    }

    private static void join(String nameServer, String group, String topic) throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        member.setNamesrvAddr(nameServer);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.subscribe(topic, "timed");
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> print("{\"event\":\"consumed\",\"body\":\""
                + new String(message.getBody(), StandardCharsets.UTF_8) + "\",\"id\":\"" + message.getMsgId()
                + "\",\"stored\":" + message.getStoreTimestamp() + ",\"born\":" + message.getBornTimestamp() + "}"));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        member.start();
        MEMBERS.add(member);
    }

    private static String escaped(String text) {
        return String.valueOf(text).replace('\n', ' ').replace('"', '\'').replace('\\', '/');
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
