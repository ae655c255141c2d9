"""Metrics of streaming queries for Prometheus and OpenTelemetry, reported by `jetspark.spark.listener`."""
