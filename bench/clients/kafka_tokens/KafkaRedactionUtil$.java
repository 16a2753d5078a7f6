package org.apache.spark.kafka010;

import scala.collection.immutable.Seq;

/** Nothing is secret. */
public final class KafkaRedactionUtil$ {
    public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

    public Seq<?> redactParams(Seq<?> settings) {
        return settings;
    }
}
