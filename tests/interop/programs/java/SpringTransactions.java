import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.apache.rocketmq.spring.support.RocketMQHeaders;
import org.apache.rocketmq.spring.support.RocketMQMessageConverter;
import org.apache.rocketmq.spring.support.RocketMQUtil;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * Transactions through rocketmq-spring's template, as its own samples use them: the listener notes a transaction's fate under the id that
 * the message's headers have, and looks it up there when the broker asks. One line is printed for each step.
 *
 * <p>Arguments: the name server's address, a topic, and the bodies of the messages; one that begins with {@code later} is committed
 * when the broker asks, one that begins with {@code never} is rolled back then, all others are committed at once.
 */
public class SpringTransactions {
    private static final String ID = RocketMQHeaders.PREFIX + RocketMQHeaders.TRANSACTION_ID;
    private static final Map<String, RocketMQLocalTransactionState> FATES = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("spring_payers");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(30_000);
        producer.setTransactionListener(RocketMQUtil.convert(new Fates()));
        RocketMQTemplate template = new RocketMQTemplate();
        template.setProducer(producer);
        template.setMessageConverter(new RocketMQMessageConverter().getMessageConverter());
        template.afterPropertiesSet();
        for (int index = 2; index < arguments.length; index++) {
            Message<String> message = MessageBuilder.withPayload(arguments[index]).build();
            SendResult sent = template.sendMessageInTransaction(arguments[1], message, null);
            System.out.println("sent " + arguments[index] + " " + sent.getTransactionId() + " " + sent.getMsgId());
        }
        System.out.println("ready");
        // Until the test ends the process.
        Thread.sleep(Long.MAX_VALUE);
    }

    private static String text(Message<?> message) {
        return new String((byte[]) message.getPayload());
    }

    private static class Fates implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            Object id = message.getHeaders().get(ID);
            System.out.println("executed " + text(message) + " " + id);
            boolean isNever = text(message).startsWith("never");
            FATES.put((String) id, isNever ? RocketMQLocalTransactionState.ROLLBACK : RocketMQLocalTransactionState.COMMIT);
            return isNever || text(message).startsWith("later")
                ? RocketMQLocalTransactionState.UNKNOWN : RocketMQLocalTransactionState.COMMIT;
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            Object id = message.getHeaders().get(ID);
            System.out.println("checked " + text(message) + " " + id);
            return FATES.getOrDefault(id, RocketMQLocalTransactionState.UNKNOWN);
        }
    }
}
