import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of Apache's mqadmin one after the other, as lines of its input say, without a Java machine for each.
 *
 * A line is the seconds that the command may take, the number of lines after which it is interrupted (0: none), and its
 * words, with tabs between. The answer is a line with its exit status (or «running» when it had to be interrupted) and
 * the number of bytes that it printed, and these bytes.
 */
public class Mqadmin {
    private static class Startup extends MQAdminStartup {
        static void start(String[] words) throws IllegalAccessException {
            // A start adds all commands; the list has one name in 4.9, and another in 5.x.
            for (Field field : MQAdminStartup.class.getDeclaredFields()) {
                if (field.getName().equals("subCommandList") || field.getName().equals("SUB_COMMANDS")) {
                    field.setAccessible(true);
                    ((List<?>) field.get(null)).clear();
                }
            }
            main0(words, null);
        }
    }

    private static class Exit extends SecurityException {
        final int status;

        Exit(int status) {
            this.status = status;
        }
    }

    @SuppressWarnings("removal")
    private static class NoExit extends SecurityManager {
        @Override
        public void checkExit(int status) {
            throw new Exit(status);
        }

        @Override
        public void checkPermission(java.security.Permission permission) {
        }
    }

    @SuppressWarnings("removal")
    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setSecurityManager(new NoExit());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream into = new PrintStream(printed, true, "UTF-8");
            System.setOut(into);
            System.setErr(into);
            int enough = Integer.parseInt(words[1]);
            String status = run(
                Arrays.copyOfRange(words, 2, words.length),
                1000L * Integer.parseInt(words[0]),
                () -> enough > 0 && printed.toString().lines().count() >= enough && printed.toString().endsWith("\n")
            );
            byte[] bytes;
            synchronized (into) {
                bytes = printed.toByteArray();
            }
            out.printf("%s %d%n", status, bytes.length);
            out.write(bytes);
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String[] words, long millis, BooleanSupplier isEnough) throws InterruptedException {
        int[] status = {0};
        Thread thread = new Thread(() -> {
            try {
                Startup.start(words);
            } catch (Exit exit) {
                status[0] = exit.status;
            } catch (Throwable error) {
                // What a Java machine does with whatever leaves its main.
                error.printStackTrace();
                status[0] = 1;
            }
        }, "main");
        thread.start();
        long until = System.nanoTime() + millis * 1_000_000;
        while (thread.isAlive() && !isEnough.getAsBoolean() && System.nanoTime() < until) {
            thread.join(20);
        }
        if (thread.isAlive()) {
            thread.interrupt();
            thread.join(5000);
            return "running";
        }
        return String.valueOf(status[0]);
    }
}
