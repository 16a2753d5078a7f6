import com.alibaba.fastjson.JSON;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** Prints what RocketMQ's strategies give each member of random groups: arguments are a seed and a count. */
public class Allocations {
    /** The last two are in another order by their UTF-16 units than by their code points. */
    private static final String[] ROOMS = {"east", "west", "nörd", "\uFF21", "\uD835\uDC00"};
    private static final String[] BROKERS = {
        "broker-%s", "%s@broker-%s", "@broker-%s", "%1$s@", "%1$s@b@", "%1$s@b@c-%1$s", "plain-%s"
    };
    private static Random random;

    public static void main(String[] arguments) {
        random = new Random(Long.parseLong(arguments[0]));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
            out.println(JSON.toJSONString(group()));
        }
    }

    private static Map<String, Object> group() {
        List<MessageQueue> queues = queues();
        List<String> clients = clients();
        int nodes = random.nextInt(4) == 0 ? random.nextInt(30) : 10;
        List<String> rooms = new ArrayList<>(Arrays.asList(ROOMS).subList(0, 1 + random.nextInt(ROOMS.length)));
        List<MessageQueue> config = queues.subList(0, random.nextInt(queues.size() + 1));
        Map<String, Object> printed = new LinkedHashMap<>();
        printed.put("queues", queues.stream().map(each -> Arrays.asList(each.getTopic(), each.getBrokerName(), each.getQueueId())).toArray());
        printed.put("clients", clients);
        printed.put("nodes", nodes);
        printed.put("rooms", rooms);
        printed.put("config", indexes(queues, config));
        Map<String, Object> shares = new LinkedHashMap<>();
        for (AllocateMessageQueueStrategy strategy : strategies(nodes, rooms, config)) {
            Map<String, Object> byClient = new LinkedHashMap<>();
            for (String client : clients) {
                byClient.put(client, indexes(queues, strategy.allocate("group", client, queues, clients)));
            }
            if (!strategy.getName().startsWith("MACHINE_ROOM_NEARBY")) { // its rooms fail for one who is nowhere
                byClient.put("stranger", indexes(queues, strategy.allocate("group", "stranger", queues, clients)));
            }
            shares.put(strategy.getName(), byClient);
        }
        printed.put("shares", shares);
        return printed;
    }

    private static List<AllocateMessageQueueStrategy> strategies(int nodes, List<String> rooms, List<MessageQueue> config) {
        AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
        byRoom.setConsumeridcs(new HashSet<>(rooms));
        AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
        byConfig.setMessageQueueList(config);
        List<AllocateMessageQueueStrategy> all = new ArrayList<>(Arrays.asList(
            new AllocateMessageQueueAveragely(),
            new AllocateMessageQueueAveragelyByCircle(),
            new AllocateMessageQueueConsistentHash(nodes)));
        for (AllocateMessageQueueStrategy inner : new ArrayList<>(all)) {
            all.add(new AllocateMachineRoomNearby(inner, new ByName()));
        }
        all.add(byRoom);
        all.add(byConfig);
        return all;
    }

    /** The room is the end of a broker's name, and what stands between @ and # in a client's id. */
    private static class ByName implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return queue.getBrokerName().substring(queue.getBrokerName().lastIndexOf('-') + 1);
        }

        @Override
        public String consumerDeployIn(String client) {
            return client.substring(client.indexOf('@') + 1, client.indexOf('#'));
        }
    }

    private static List<MessageQueue> queues() {
        List<MessageQueue> queues = new ArrayList<>();
        int brokers = 1 + random.nextInt(5);
        for (int broker = 0; broker < brokers; broker++) {
            String room = ROOMS[random.nextInt(ROOMS.length)];
            String name = String.format(BROKERS[random.nextInt(BROKERS.length)], room, room);
            int count = 1 + random.nextInt(9);
            for (int queueId = 0; queueId < count; queueId++) {
                MessageQueue queue = new MessageQueue("topic", name, queueId);
                if (!queues.contains(queue)) {
                    queues.add(queue);
                }
            }
        }
        Collections.sort(queues);
        return queues;
    }

    private static List<String> clients() {
        List<String> clients = new ArrayList<>();
        int count = 1 + random.nextInt(random.nextBoolean() ? 4 : 20);
        for (int number = 0; number < count; number++) {
            String room = ROOMS[random.nextInt(ROOMS.length)];
            clients.add("10.0." + random.nextInt(9) + "." + random.nextInt(9) + "@" + room + "#" + random.nextInt(99999));
        }
        if (random.nextInt(8) == 0) {
            clients.add(clients.get(0));
        }
        Collections.sort(clients);
        return clients;
    }

    private static int[] indexes(List<MessageQueue> queues, List<MessageQueue> share) {
        return share.stream().mapToInt(queues::indexOf).toArray();
    }
}
