"""Tasks with an ETA on a broker that refuses times: they are sent at once, and a worker holds them."""

from datetime import UTC, datetime, timedelta

from kombu import Connection, Exchange, Producer, Queue

from pyromq.testing.cluster import running_cluster


def test_an_eta_that_a_broker_refuses_is_left_to_the_worker() -> None:
    queue = Queue("q", Exchange("q"), routing_key="k")
    later = datetime.now(UTC) + timedelta(days=2)
    with (
        running_cluster(timer_max_delay_sec=86_400) as cluster,
        Connection(f"pyromq://{cluster.namesrv_address}", transport="pyromq.kombu:Transport") as connection,
    ):
        producer = Producer(connection.channel())
        headers = {"eta": later.isoformat()}
        producer.publish("x", exchange=queue.exchange, routing_key="k", declare=[queue], headers=headers)

        found = queue(connection.channel()).get()

        assert found is not None
        assert found.headers["eta"] == later.isoformat()
        found.ack()
