"""Departures as JSON in the stream FLIGHTS -> a clean table -> delays by hour, published to `delays.<carrier>`.

The server is that of the environment variable `NATS_URL`. The stream DELAYS must take `delays.>`. A run of the pipeline
reads what is new since the last one; Spark remembers how far it was below the pipeline's `storage`.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

spark = SparkSession.active()

dp.create_sink("delays", "jetstream", {"expectedStream": "DELAYS", "maxReplayDelay": "2m"})


@dp.temporary_view
def flown() -> DataFrame:
    """Read the stream, and clean it: no cancelled flights, nothing that is not JSON."""
    messages = (
        spark.readStream.format("jetstream").option("stream", "FLIGHTS").option("startingOffsets", "earliest").load()
    )
    flight = "from_json(CAST(data AS STRING), 'carrier STRING, scheduled TIMESTAMP, delay DOUBLE') AS flight"
    flights = messages.selectExpr("sequence", flight).select("sequence", "flight.*").where("delay IS NOT NULL")
    return flights.withWatermark("scheduled", "1 hour")


@dp.table(comment="Flights that left, each once")
def departures() -> DataFrame:
    """Keep them."""
    return spark.readStream.table("flown")


@dp.materialized_view(comment="The carriers and how late they are")
def carriers() -> DataFrame:
    """Sum up what was kept."""
    return spark.read.table("departures").groupBy("carrier").agg(F.count("*").alias("flights"), F.avg("delay"))


@dp.append_flow(target="delays")
def delays_by_hour() -> DataFrame:
    """Publish each hour of each carrier, once no more flights of that hour are expected."""
    hours = spark.readStream.table("flown").groupBy(F.window("scheduled", "1 hour").alias("hour"), "carrier")
    sums = hours.agg(F.count("*").alias("flights"), F.avg("delay").alias("mean_delay"))
    return sums.select(
        F.concat(F.lit("delays."), "carrier").alias("subject"),
        F.to_json(F.struct("carrier", "hour.start", "flights", "mean_delay")).alias("data"),
    )
