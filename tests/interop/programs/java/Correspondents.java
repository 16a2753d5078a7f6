import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One who asks, one who replies «body!», one who leaves transactions open, and one who commits them when asked.
 *
 * <p>Commands: {@code request TOPIC BODY}, {@code serve TOPIC}, {@code open GROUP TOPIC BODY}, {@code answer GROUP TOPIC},
 * {@code quit}.
 */
public class Correspondents {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final int PATIENT_MS = 60_000;
    private static String nameServer;
    private static DefaultMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        nameServer = arguments[0];
        producer = started(new DefaultMQProducer("correspondents"));
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "request":
                    Message reply = producer.request(new Message(words[1], bytes(words[2])), PATIENT_MS);
                    event("reply", text(reply));
                    break;
                case "serve":
                    serve(words[1]);
                    break;
                case "open":
                    member(words[1], LocalTransactionState.UNKNOW)
                        .sendMessageInTransaction(new Message(words[2], bytes(words[3])), null);
                    break;
                default:
                    TransactionMQProducer member = member(words[1], LocalTransactionState.COMMIT_MESSAGE);
                    member.fetchPublishMessageQueues(words[2]);
                    member.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
            }
            print("{\"event\":\"done\"}");
        }
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void serve(String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("correspondents-" + topic);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    producer.send(MessageUtil.createReplyMessage(message, bytes(text(message) + "!")), PATIENT_MS);
                } catch (Exception error) {
                    event("failed", error.toString());
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private static TransactionMQProducer member(String group, LocalTransactionState fate) throws Exception {
        TransactionMQProducer member = new TransactionMQProducer(group);
        member.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                event("checked", text(message));
                return fate;
            }
        });
        return started(member);
    }

    private static <P extends DefaultMQProducer> P started(P one) throws Exception {
        one.setNamesrvAddr(nameServer);
        one.setSendMsgTimeout(PATIENT_MS);
        one.start();
        return one;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static void event(String kind, String text) {
        print("{\"event\":\"" + kind + "\",\"text\":\"" + text.replace("\"", "'").replace("\n", " ") + "\"}");
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }
}
