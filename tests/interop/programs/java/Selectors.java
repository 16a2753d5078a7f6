import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * What Apache's own filter says: a line is an expression and then names and values in turn, each in Base64; the
 * answer is {@code true}, {@code false}, {@code null}, {@code failed} or {@code invalid}.
 */
public class Selectors {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            Map<String, String> properties = new HashMap<>();
            for (int at = 1; at + 1 < words.length; at += 2) {
                properties.put(text(words[at]), text(words[at + 1]));
            }
            out.println("{\"answer\":\"" + answer(text(words[0]), properties) + "\"}");
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)), StandardCharsets.UTF_8);
    }

    private static String answer(String expression, Map<String, String> properties) {
        Expression compiled;
        try {
            compiled = SelectorParser.parse(expression);
        } catch (Throwable error) {
            return "invalid";
        }
        try {
            return String.valueOf(compiled.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return new HashMap<>(properties);
                }
            }));
        } catch (Throwable error) {
            return "failed";
        }
    }
}
