import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * The official Java SDK of 5.x under load, as it is (TLS, any certificate), for bench/door.py: it prints the lines
 * of the Go program in clients/door.
 */
public class JavaDoor {
    private static final int WINDOW = 64;
    private static final int RECEIVERS = 8;
    private static final int BATCH = 32;
    private static final AtomicLong DONE = new AtomicLong();
    private static final AtomicLong FAILED = new AtomicLong();
    private static volatile String failure = "";
    private static String topic;
    private static String group;
    private static byte[] body;

    public static void main(String[] arguments) throws Exception {
        String mode = arguments[0];
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(arguments[1]).setRequestTimeout(Duration.ofSeconds(10)).build();
        topic = arguments[2];
        group = arguments[3];
        body = new byte[Integer.parseInt(arguments[4])];
        double warm = Double.parseDouble(arguments[5]);
        double measured = Double.parseDouble(arguments[6]);
        long count = Long.parseLong(arguments[7]);
        if (mode.equals("send")) {
            send(configuration, warm, measured);
        } else {
            receive(configuration, count);
        }
        // Clients that are closed wait for their held receives: whoever measures need not.
        Runtime.getRuntime().halt(0);
    }

    private static long begin() {
        System.out.println("{\"phase\": \"begin\"}");
        System.out.flush();
        return System.nanoTime();
    }

    private static void end(long beganNs, long before) {
        long messages = DONE.get() - before;
        double seconds = (System.nanoTime() - beganNs) / 1e9;
        System.out.println("{\"phase\": \"end\"}");
        System.out.println("{\"messages\": " + messages + ", \"seconds\": " + seconds + ", \"rate\": "
            + messages / seconds + ", \"messages_in_all\": " + DONE.get() + ", \"errors\": "
            + (FAILED.get() == 0 ? "{}" : "{\"" + failure.replace('"', '\'') + "\": " + FAILED.get() + "}") + "}");
        System.out.flush();
    }

    private static void failed(Throwable error) {
        failure = String.valueOf(error.getMessage()).split("\n")[0];
        FAILED.incrementAndGet();
    }

    private static void send(ClientConfiguration configuration, double warm, double measured) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        Producer producer =
            provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        Semaphore window = new Semaphore(WINDOW);
        AtomicBoolean isOver = new AtomicBoolean();
        Thread sender = new Thread(() -> {
            while (!isOver.get()) {
                window.acquireUninterruptibly();
                Message message = provider.newMessageBuilder().setTopic(topic).setBody(body).build();
                producer.sendAsync(message).whenComplete((receipt, error) -> {
                    if (error == null) {
                        DONE.incrementAndGet();
                    } else {
                        failed(error);
                    }
                    window.release();
                });
            }
        });
        sender.setDaemon(true);
        sender.start();
        Thread.sleep((long) (warm * 1000));
        long before = DONE.get();
        long began = begin();
        Thread.sleep((long) (measured * 1000));
        end(began, before);
        isOver.set(true);
        sender.join();
    }

    private static void receive(ClientConfiguration configuration, long count) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        SimpleConsumer consumer = provider.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .build();
        for (int at = 0; at < RECEIVERS; at++) {
            Thread receiver = new Thread(() -> {
                while (true) {
                    take(consumer);
                }
            });
            receiver.setDaemon(true);
            receiver.start();
        }
        awaitDone(count / 10);
        long before = DONE.get();
        long began = begin();
        awaitDone(count * 9 / 10);
        end(began, before);
    }

    private static void take(SimpleConsumer consumer) {
        try {
            List<MessageView> messages = consumer.receive(BATCH, Duration.ofSeconds(60));
            CompletableFuture<?>[] acknowledged = new CompletableFuture<?>[messages.size()];
            for (int at = 0; at < acknowledged.length; at++) {
                acknowledged[at] = consumer.ackAsync(messages.get(at));
            }
            CompletableFuture.allOf(acknowledged).get();
            DONE.addAndGet(acknowledged.length);
        } catch (Exception error) {
            failed(error);
        }
    }

    private static void awaitDone(long wanted) throws Exception {
        long deadline = System.nanoTime() + 120_000_000_000L;
        while (DONE.get() < wanted) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("only " + DONE.get() + " of " + wanted + " messages: " + failure);
            }
            Thread.sleep(1);
        }
    }
}
