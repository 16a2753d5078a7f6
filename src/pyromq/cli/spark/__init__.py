"""Commands that run on Spark: `job` and `pipeline`."""
