"""Work on whole topics with Spark: archive, verify, replay, mirror. Each can be stopped and begun again."""
