"""Streaming queries of one session that start together. In Spark 4.3 they share their environment."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.support import Nats

from jetspark.spark import register

pytestmark = pytest.mark.spark


def environment(spark: SparkSession, url: str, stream: str) -> int:
    """Return the identity, in the JVM, of the environment that a query on a new read changes when it starts."""
    frame = spark.readStream.format("jetstream").option("servers", url).option("stream", stream).load()
    found = frame._jdf.logicalPlan().table()
    assert spark._jvm is not None
    field = found.getClass().getDeclaredField("ds")
    field.setAccessible(True)
    return int(spark._jvm.java.lang.System.identityHashCode(field.get(found).source().dataSourceCls().envVars()))


def test_reads_after_a_registration_share_no_environment_with_earlier_reads(spark: SparkSession, nats: Nats) -> None:
    session, stream = spark.newSession(), nats.stream()  # registrations last as long as a session
    shared = {environment(session, nats.url, stream) for _ in range(2)}
    apart = set()
    for _ in range(3):
        register(session)
        apart.add(environment(session, nats.url, stream))
    assert len(shared) == 1, "Spark has mended it: registering is needed no more"
    assert len(apart - shared) == 3
