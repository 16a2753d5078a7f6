"""A Kafka broker, and Spark's own connector for it: fetched by Maven, started in a folder of its own."""

import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyspark
from harness.ports import free_broker_port
from harness.toolchains import java_classes, java_classpath, tool
from pyspark.sql import SparkSession

from pyromq.testing.waiting import eventually

#: As much memory as Apache's RocketMQ is given in the other comparison.
JVM = ["-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]
#: Of the cluster: 16 bytes, as Kafka writes them.
IDENTITY = "PyroMQ-bench-cluster-A"
START_TIMEOUT_S = 180.0
TOKENS = Path(__file__).resolve().parents[1] / "clients" / "kafka_tokens"


def connector_classpath() -> str:
    """Return the class path that Spark's driver needs to read and write Kafka's topics."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    tokens = java_classes("kafka-tokens", sorted(TOKENS.glob("*.java")), f"{spark_jars}/*")
    return f"{java_classpath('spark-kafka')}:{tokens}"


def start_kafka(folder: Path, closing: ExitStack) -> str:
    """Start one broker that is its own controller, with Kafka's defaults for all else; return its address.

    A busy machine may hold its heartbeat up for seconds, which is no reason to take its partitions away.
    """
    classpath = java_classpath("server-kafka")
    port, controller_port = free_broker_port(), free_broker_port()
    settings = folder / "kafka.properties"
    settings.write_text(
        f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder / "kafka"}
auto.create.topics.enable=false
broker.session.timeout.ms=600000
controller.quorum.fetch.timeout.ms=60000
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
    )
    java = [tool("java"), *JVM, "-cp", classpath]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", IDENTITY, "-c", str(settings)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with (folder / "kafka.out").open("wb") as out:
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=out, stderr=out, cwd=folder)
    closing.callback(_end, process)
    eventually(lambda: _accepts(port), START_TIMEOUT_S, what="Kafka's broker is up")
    return f"127.0.0.1:{port}"


def create_in_kafka(spark: SparkSession, address: str, topics: list[str], partitions: int) -> None:
    """Create topics, by Kafka's own client in Spark's JVM, and wait until each partition has a leader.

    A producer that writes to a topic which is being made may wait for one of its partitions in vain.
    """
    machine: Any = spark.sparkContext._jvm
    settings = machine.java.util.Properties()
    settings.setProperty("bootstrap.servers", address)
    admin = machine.org.apache.kafka.clients.admin.AdminClient.create(settings)
    optional = machine.java.util.Optional
    new_topic = machine.org.apache.kafka.clients.admin.NewTopic
    made = [new_topic(topic, optional.of(partitions), optional.empty()) for topic in topics]
    admin.createTopics(made).all().get()

    def is_led() -> bool:
        found = admin.describeTopics(topics).allTopicNames().get()
        return all(
            len(found[topic].partitions()) == partitions
            and all(one.leader() is not None for one in found[topic].partitions())
            for topic in topics
        )

    eventually(is_led, START_TIMEOUT_S, what="each of Kafka's partitions has a leader")
    admin.close()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
