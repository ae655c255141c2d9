"""The two streaming queries of the demo: FLIGHTS to Parquet, and FLIGHTS to delays by the hour, published to DELAYS.

The message id of a window consists of its carrier and its hour. So a window is stored once, even if a repeated
micro-batch gives the windows in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from demo.publish import DELAYS, FLIGHTS, REPLAY_DELAY
from jetspark.spark import JetStreamListener, QueryProgress, register

__all__ = ["ARCHIVE", "PARQUET", "WATERMARK", "WINDOWS", "Queries"]

ARCHIVE: Final = "archive"
WINDOWS: Final = "windows"
PARQUET: Final = "flights.parquet"
"""Path of the flights in the output directory."""
WATERMARK: Final = "1 hour"
"""Maximum time by which a flight may come later than another one of the same hour."""
_AT_A_TIME: Final = 100_000
_FLIGHT: Final = """
    year int, month int, day int, dep_time double, sched_dep_time int, dep_delay double, arr_time double,
    sched_arr_time int, arr_delay double, carrier string, flight int, tailnum string, origin string, dest string,
    air_time double, distance int, hour int, minute int, time_hour timestamp
"""


class Queries:
    """The queries of one server and one output directory; `on_progress` is called for every micro-batch."""

    def __init__(
        self, spark: SparkSession, url: str, output: Path, on_progress: Callable[[QueryProgress], None]
    ) -> None:
        self._spark = spark
        self._url = url
        self._output = output
        spark.streams.addListener(JetStreamListener(on_progress))

    def run_available(self) -> None:
        """Run both queries until they have read all present messages."""
        queries = [writer.trigger(availableNow=True).start() for writer in self._writers()]
        for query in queries:
            query.awaitTermination()

    def start(self) -> list[StreamingQuery]:
        """Start both queries; they run until they are stopped."""
        return [writer.start() for writer in self._writers()]

    def _writers(self) -> list[DataStreamWriter]:
        parquet = self._archive().writeStream.format("parquet").option("path", str(self._output / PARQUET))
        delays = self._delays().writeStream.format("jetstream").option("servers", self._url)
        delays = delays.option("expectedStream", DELAYS).option("maxReplayDelay", f"{REPLAY_DELAY.total_seconds():g}s")
        return [
            writer.queryName(name).option("checkpointLocation", str(self._output / "checkpoints" / name))
            for name, writer in ((ARCHIVE, parquet), (WINDOWS, delays))
        ]

    def _flights(self) -> DataFrame:
        register(self._spark)  # the two queries start together
        source = self._spark.readStream.format("jetstream").option("servers", self._url).option("stream", FLIGHTS)
        source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", _AT_A_TIME)
        flight = F.from_json(F.col("data").cast("string"), _FLIGHT).alias("flight")
        messages = source.option("minPartitions", 2).load()
        return messages.select("sequence", "subject", flight).select("sequence", "subject", "flight.*")

    def _archive(self) -> DataFrame:
        return self._flights()

    def _delays(self) -> DataFrame:
        hours = self._flights().withWatermark("time_hour", WATERMARK)
        delays = hours.groupBy(F.window("time_hour", "1 hour").alias("window"), "carrier", "hour").agg(
            F.count(F.lit(1)).alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.coalesce(F.sum("dep_delay"), F.lit(0.0)).alias("minutes"),
        )
        return delays.select(
            F.format_string("delays.%s.%02d", "carrier", "hour").alias("subject"),
            F.to_json(F.struct("window.start", "carrier", "hour", "flights", "departed", "minutes")).alias("data"),
            F.concat_ws("-", "carrier", F.date_format("window.start", "yyyyMMddHH")).alias("msg_id"),
        )
