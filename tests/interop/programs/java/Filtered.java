import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Push consumers that filter by SQL.
 *
 * <p>Commands: {@code join NAME GROUP TOPIC EXPRESSION…}, {@code leave NAME}, {@code quit}. A consumer that does not
 * start prints {@code refused} with what its client says.
 */
public class Filtered {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Map<String, DefaultMQPushConsumer> MEMBERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String[] words = line.split(" ", 5);
            if (words[0].equals("join")) {
                join(arguments[0], words[1], words[2], words[3], words[4]);
            } else {
                MEMBERS.remove(words[1]).shutdown();
            }
            print("{\"event\":\"done\"}");
        }
        MEMBERS.values().forEach(DefaultMQPushConsumer::shutdown);
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void join(String nameServer, String name, String group, String topic, String expression)
        throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group);
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(name);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.subscribe(topic, MessageSelector.bySql(expression));
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> print("{\"event\":\"consumed\",\"member\":\"" + name + "\",\"body\":\""
                + new String(message.getBody(), StandardCharsets.UTF_8) + "\"}"));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        try {
            member.start();
            MEMBERS.put(name, member);
        } catch (Exception error) {
            String says = String.valueOf(error.getMessage()).replace('\n', ' ').replace('"', '\'').replace('\\', '/');
            print("{\"event\":\"refused\",\"says\":\"" + says + "\"}");
            member.shutdown();
        }
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
