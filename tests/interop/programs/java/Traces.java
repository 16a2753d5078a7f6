import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.client.trace.TraceView;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageType;

/**
 * Message traces of the 4.9.8 client: left by its producers and consumers, and read by its own classes.
 *
 * <p>Commands: {@code send TOPIC BODY}, {@code join GROUP TOPIC}, {@code read TRACE_TOPIC ID}, {@code encode},
 * {@code quit}.
 */
public class Traces {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final List<DefaultMQPushConsumer> MEMBERS = new ArrayList<>();
    private static DefaultMQProducer producer;

    public static void main(String[] arguments) throws Exception {
        producer = new DefaultMQProducer("java_tracing", true, null);
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        print("{\"event\":\"ready\",\"can\":[]}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
            perform(arguments[0], line.split(" "));
            print("{\"event\":\"done\"}");
        }
        MEMBERS.forEach(DefaultMQPushConsumer::shutdown);
        producer.shutdown();
        print("{\"event\":\"stopped\"}");
        System.exit(0);
    }

    private static void perform(String nameServer, String[] words) throws Exception {
        if (words[0].equals("send")) {
            Message message = new Message(words[1], "paid", "42 43", words[2].getBytes(StandardCharsets.UTF_8));
            print("{\"event\":\"sent\",\"id\":\"" + producer.send(message).getMsgId() + "\"}");
        } else if (words[0].equals("join")) {
            join(nameServer, words[1], words[2]);
        } else if (words[0].equals("read")) {
            read(words[1], words[2]);
        } else {
            encode();
        }
    }

    private static void join(String nameServer, String group, String topic) throws Exception {
        DefaultMQPushConsumer member = new DefaultMQPushConsumer(group, true);
        member.setNamesrvAddr(nameServer);
        member.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        member.subscribe(topic, "*");
        member.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            print("{\"event\":\"got\",\"id\":\"" + message.getMsgId() + "\",\"times\":" + message.getReconsumeTimes()
                + "}");
            return message.getReconsumeTimes() == 0
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        member.start();
        MEMBERS.add(member);
    }

    private static void read(String topic, String id) throws Exception {
        List<MessageExt> found;
        try {
            found = producer.queryMessage(topic, id, 64, 0, System.currentTimeMillis() + 60_000).getMessageList();
        } catch (org.apache.rocketmq.client.exception.MQClientException none) {
            return;
        }
        for (MessageExt message : found) {
            for (TraceView view : TraceView.decodeFromTraceTransData(id, message)) {
                print("{\"event\":\"trace\",\"type\":\"" + view.getMsgType() + "\",\"group\":\"" + view.getGroupName()
                    + "\",\"topic\":\"" + view.getTopic() + "\",\"tags\":\"" + view.getTags() + "\",\"keys\":\""
                    + view.getKeys() + "\",\"status\":\"" + view.getStatus() + "\",\"store\":\"" + view.getStoreHost()
                    + "\",\"offset_id\":\"" + view.getOffSetMsgId() + "\"}");
            }
        }
    }

    private static void encode() {
        TraceBean bean = new TraceBean();
        bean.setTopic("orders");
        bean.setMsgId("ID1");
        bean.setOffsetMsgId("OFF1");
        bean.setTags("paid");
        bean.setKeys("42 43");
        bean.setStoreHost("127.0.0.1:10911");
        bean.setBodyLength(7);
        bean.setRetryTimes(2);
        bean.setMsgType(MessageType.Trans_Msg_Half);
        bean.setTransactionId("TX");
        bean.setTransactionState(LocalTransactionState.ROLLBACK_MESSAGE);
        bean.setFromTransactionCheck(true);
        TraceBean bare = new TraceBean();
        bare.setTopic("orders");
        bare.setMsgId("ID2");
        bare.setTags(null);
        bare.setKeys(null);
        bare.setStoreHost("b:1");
        bare.setMsgType(MessageType.Normal_Msg);
        bare.setTransactionState(LocalTransactionState.UNKNOW);
        for (TraceType type : TraceType.values()) {
            for (TraceBean one : Arrays.asList(bean, bare)) {
                TraceContext context = new TraceContext();
                context.setTraceType(type);
                context.setTimeStamp(1_700_000_000_000L);
                context.setRegionId(one == bare ? null : "DefaultRegion");
                context.setGroupName("group");
                context.setRequestId("R1");
                context.setCostTime(3);
                context.setSuccess(one == bean);
                context.setContextCode(4);
                context.setAccessChannel(AccessChannel.LOCAL);
                context.setTraceBeans(Arrays.asList(one));
                String text = TraceDataEncoder.encoderFromContextBean(context).getTransData();
                print("{\"event\":\"encoded\",\"text\":\""
                    + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)) + "\"}");
            }
        }
    }

    private static void print(String line) {
        synchronized (OUT) {
            OUT.println(line);
        }
    }
}
