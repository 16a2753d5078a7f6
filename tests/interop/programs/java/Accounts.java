import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Clients that sign what they ask, each as an account.
 *
 * <p>Commands, KEY and SECRET first: {@code send TOPIC BODY}, {@code batch TOPIC BODY}, {@code transact TOPIC BODY},
 * {@code join GROUP TOPIC orderly|concurrently}, {@code query TOPIC KEY}, {@code view TOPIC ID}; and {@code quit}.
 * A body that begins with «again» is not consumed at its first try.
 */
public class Accounts {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final List<DefaultMQPushConsumer> MEMBERS = new ArrayList<>();
    private static final Map<String, TransactionMQProducer> PRODUCERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            String[] words = line.split(" ");
            try {
                perform(arguments[0], words);
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                print("{\"event\":\"refused\",\"says\":\"" + escaped(String.valueOf(cause.getMessage())) + "\"}");
            }
            print("{\"event\":\"done\"}");
        }
        MEMBERS.forEach(DefaultMQPushConsumer::shutdown);
        PRODUCERS.values().forEach(TransactionMQProducer::shutdown);
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void perform(String nameServer, String[] words) throws Exception {
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(words[0], words[1]));
        if (words[2].equals("join")) {
            join(nameServer, hook, words[0], words[3], words[4], words[5].equals("orderly"));
            return;
        }
        TransactionMQProducer producer = producer(nameServer, hook, words[0] + "-" + words[1]);
        byte[] body = words[4].getBytes(StandardCharsets.UTF_8);
        Message message = new Message(words[3], "tag", "key-" + words[4], body);
        if (words[2].equals("send")) {
            sent(producer.send(message));
        } else if (words[2].equals("batch")) {
            sent(producer.send(Arrays.asList(message, new Message(words[3], "tag", body))));
        } else if (words[2].equals("transact")) {
            sent(producer.sendMessageInTransaction(message, null));
        } else if (words[2].equals("query")) {
            QueryResult found = producer.queryMessage(words[3], words[4], 32, 0, System.currentTimeMillis());
            print("{\"event\":\"found\",\"count\":" + found.getMessageList().size() + "}");
        } else {
            MessageExt found = producer.viewMessage(words[3], words[4]);
            print("{\"event\":\"found\",\"count\":" + (found == null ? 0 : 1) + "}");
        }
    }

    private static TransactionMQProducer producer(String nameServer, RPCHook hook, String name) throws Exception {
        if (!PRODUCERS.containsKey(name)) {
            TransactionMQProducer producer = new TransactionMQProducer(null, "accounts_producer", hook);
            producer.setNamesrvAddr(nameServer);
            producer.setInstanceName(name);
            producer.setSendMsgTimeout(20_000);
            producer.setRetryTimesWhenSendFailed(0);
            producer.setTransactionListener(new Commits());
            producer.start();
            PRODUCERS.put(name, producer);
        }
        return PRODUCERS.get(name);
    }

    private static void sent(SendResult result) {
        print("{\"event\":\"sent\",\"status\":\"" + result.getSendStatus() + "\",\"id\":\"" + result.getMsgId()
            + "\",\"offsetId\":\"" + result.getOffsetMsgId() + "\"}");
    }

    private static void join(String nameServer, RPCHook hook, String account, String group, String topic,
        boolean inOrder) throws Exception {
        DefaultMQPushConsumer member =
            new DefaultMQPushConsumer(null, group, hook, new AllocateMessageQueueAveragely());
        member.setNamesrvAddr(nameServer);
        member.setInstanceName(account + "-" + group);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.subscribe(topic, "*");
        if (inOrder) {
            member.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(message -> consumed(group, message));
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(1);
                boolean isEarly = messages.stream().anyMatch(message -> message.getReconsumeTimes() == 0
                    && new String(message.getBody(), StandardCharsets.UTF_8).startsWith("again"));
                if (isEarly) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                messages.forEach(message -> consumed(group, message));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        member.start();
        MEMBERS.add(member);
    }

    private static void consumed(String group, MessageExt message) {
        print("{\"event\":\"consumed\",\"group\":\"" + group + "\",\"body\":\""
            + new String(message.getBody(), StandardCharsets.UTF_8) + "\",\"times\":" + message.getReconsumeTimes()
            + "}");
    }

    private static String escaped(String text) {
        return text.replace('\n', ' ').replace('"', '\'').replace('\\', '/');
    }

    private static synchronized void print(String line) {
        OUT.println(line);
    }

    private static final class Commits implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return LocalTransactionState.COMMIT_MESSAGE;
        }
    }
}
