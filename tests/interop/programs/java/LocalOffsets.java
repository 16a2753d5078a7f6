import java.util.HashSet;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * RocketMQ's own file of a broadcasting consumer's offsets, in -Drocketmq.client.localOffsetStoreDir.
 * Arguments: client id, group, then «topic broker queue» to print an offset, or «topic broker queue=offset» to keep one.
 */
public class LocalOffsets {
    public static void main(String[] arguments) throws Exception {
        MQClientInstance instance = new MQClientInstance(new ClientConfig(), 0, arguments[0]);
        LocalFileOffsetStore store = new LocalFileOffsetStore(instance, arguments[1]);
        store.load();
        HashSet<MessageQueue> kept = new HashSet<>();
        for (int at = 2; at < arguments.length; at += 3) {
            String[] queueAndOffset = arguments[at + 2].split("=");
            MessageQueue queue = new MessageQueue(arguments[at], arguments[at + 1], Integer.parseInt(queueAndOffset[0]));
            if (queueAndOffset.length == 2) {
                store.updateOffset(queue, Long.parseLong(queueAndOffset[1]), false);
                kept.add(queue);
            } else {
                System.out.println(store.readOffset(queue, ReadOffsetType.READ_FROM_MEMORY));
            }
        }
        store.persistAll(kept);
        System.exit(0); // the instance has threads of its own
    }
}
