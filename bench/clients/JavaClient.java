import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The official Java client under load, for bench/client.py, with the arguments of ours.py. */
public class JavaClient {
    private static final int WINDOW = 256;
    private static final int THREADS = 64;
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static String nameServer;
    private static String topic;
    private static byte[] body;
    private static double[] phases;
    private static int count;

    public static void main(String[] arguments) throws Exception {
        nameServer = arguments[0];
        topic = arguments[2];
        body = new byte[Integer.parseInt(arguments[3])];
        Arrays.fill(body, (byte) 'x');
        phases = new double[] {Double.parseDouble(arguments[4]), Double.parseDouble(arguments[5])};
        count = Integer.parseInt(arguments[6]);
        switch (arguments[1]) {
            case "sync":
                sendOneAfterTheOther();
                break;
            case "threads":
                sendOnThreads();
                break;
            case "async":
                sendManyAtOnce();
                break;
            default:
                push();
        }
        System.exit(0);
    }

    private static void report(long messages, long beganNs, long beganCpuNs) {
        double seconds = (System.nanoTime() - beganNs) / 1e9;
        double cpuSeconds = (SYSTEM.getProcessCpuTime() - beganCpuNs) / 1e9;
        System.out.println("{\"messages\": " + messages + ", \"seconds\": " + seconds
            + ", \"cpu_seconds\": " + cpuSeconds + "}");
    }

    private static DefaultMQProducer newProducer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench_java");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        return producer;
    }

    private static void sendOneAfterTheOther() throws Exception {
        DefaultMQProducer producer = newProducer();
        long sent = 0, began = 0, cpu = 0;
        for (double seconds : phases) {
            sent = 0;
            began = System.nanoTime();
            cpu = SYSTEM.getProcessCpuTime();
            while (System.nanoTime() < began + seconds * 1e9) {
                producer.send(new Message(topic, body));
                sent++;
            }
        }
        report(sent, began, cpu);
    }

    private static void sendOnThreads() throws Exception {
        DefaultMQProducer producer = newProducer();
        AtomicLong sent = new AtomicLong();
        AtomicLong failures = new AtomicLong();
        long began = 0, cpu = 0;
        for (double seconds : phases) {
            sent.set(0);
            began = System.nanoTime();
            cpu = SYSTEM.getProcessCpuTime();
            long deadline = began + (long) (seconds * 1e9);
            Thread[] threads = new Thread[THREADS];
            for (int i = 0; i < THREADS; i++) {
                threads[i] = new Thread(() -> {
                    try {
                        while (System.nanoTime() < deadline) {
                            producer.send(new Message(topic, body));
                            sent.incrementAndGet();
                        }
                    } catch (Exception error) {
                        failures.incrementAndGet();
                    }
                });
                threads[i].start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
        }
        if (failures.get() > 0) {
            throw new IllegalStateException(failures + " threads failed");
        }
        report(sent.get(), began, cpu);
    }

    private static void sendManyAtOnce() throws Exception {
        DefaultMQProducer producer = newProducer();
        Semaphore window = new Semaphore(WINDOW);
        AtomicLong failures = new AtomicLong();
        long sent = 0, began = 0, cpu = 0;
        for (double seconds : phases) {
            sent = 0;
            began = System.nanoTime();
            cpu = SYSTEM.getProcessCpuTime();
            while (System.nanoTime() < began + seconds * 1e9) {
                window.acquire();
                producer.send(new Message(topic, body), new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        window.release();
                    }

                    @Override
                    public void onException(Throwable error) {
                        failures.incrementAndGet();
                        window.release();
                    }
                });
                sent++;
            }
            window.acquire(WINDOW);
            window.release(WINDOW);
        }
        if (failures.get() > 0) {
            throw new IllegalStateException(failures + " sends failed");
        }
        report(sent, began, cpu);
    }

    private static void push() throws Exception {
        AtomicLong messages = new AtomicLong();
        CountDownLatch ended = new CountDownLatch(1);
        long warm = count / 5;
        long[] began = {0, 0};
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench_java_" + System.nanoTime());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            long now = messages.addAndGet(batch.size());
            if (now == warm) {
                began[0] = System.nanoTime();
                began[1] = SYSTEM.getProcessCpuTime();
            }
            if (now == count) {
                ended.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!ended.await(240, TimeUnit.SECONDS)) {
            throw new IllegalStateException("only " + messages + " messages");
        }
        report(count - warm, began[0], began[1]);
    }
}
