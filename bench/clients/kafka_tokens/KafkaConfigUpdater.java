package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;

/** Settings of a Kafka client where nobody signs in: stands for Spark's module of delegation tokens. */
public final class KafkaConfigUpdater {
    private final Map<String, Object> settings = new HashMap<>();

    public KafkaConfigUpdater(String module, scala.collection.immutable.Map<String, ?> given) {
        given.foreachEntry(settings::put);
    }

    public KafkaConfigUpdater set(String key, Object value) {
        settings.put(key, value);
        return this;
    }

    public KafkaConfigUpdater setIfUnset(String key, Object value) {
        settings.putIfAbsent(key, value);
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded(scala.Option<?> cluster) {
        return this;
    }

    public Map<String, Object> build() {
        return settings;
    }
}
