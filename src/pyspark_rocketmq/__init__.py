"""A RocketMQ topic as a Spark table: `spark.read.format("rocketmq")`.

Spark looks for packages named `pyspark_*` and takes their `DefaultSource`. One that fails to import
disables every other one, so nothing heavy is imported before Spark asks for the source.
"""

from typing import Any

__all__ = ["DefaultSource", "register"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_rocketmq.data_source import RocketMQSource

        return RocketMQSource
    raise AttributeError(f"module 'pyspark_rocketmq' has no attribute {name!r}")


def register(spark: Any) -> None:
    """Make `format("rocketmq")` known to a session that did not find this package by itself.

    For `--py-files` and Spark Connect: the code is sent along, so executors need not have it installed. What
    is compiled does not travel, and the pure version runs there.
    """
    from pyspark import cloudpickle

    from pyspark_rocketmq import shipping

    shipping.check_python(spark)
    cloudpickle.register_pickle_by_value(shipping)  # type: ignore[no-untyped-call]  # pyspark's own copy
    spark.dataSource.register(shipping.shipped_source(shipping.packed_packages()))
