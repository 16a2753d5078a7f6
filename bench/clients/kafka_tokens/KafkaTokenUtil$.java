package org.apache.spark.kafka010;

import java.util.Map;
import org.apache.spark.SparkConf;
import scala.Option;

/** No cluster has tokens. */
public final class KafkaTokenUtil$ {
    public static final KafkaTokenUtil$ MODULE$ = new KafkaTokenUtil$();

    public boolean needTokenUpdate(Map<String, Object> settings, Option<?> cluster) {
        return false;
    }

    public Option<?> findMatchingTokenClusterConfig(SparkConf settings, String servers) {
        return Option.empty();
    }
}
