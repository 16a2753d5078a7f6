import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** The one call whose signature the 5.x client changed. */
final class Topics {
    private Topics() {
    }

    static void create(DefaultMQProducer producer, String topic, int queues) throws MQClientException {
        producer.createTopic("TBW102", topic, queues);
    }
}
