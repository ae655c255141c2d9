"""Read departures as JSON from the stream FLIGHTS, clean them, and publish delays by hour to `delays.<carrier>`.

The environment variable `NATS_URL` has the address of the server. The stream DELAYS must store `delays.>`. Each run of
the pipeline reads the messages that are new since the last run. Spark stores the position in the pipeline's `storage`.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

spark = SparkSession.active()

dp.create_sink("delays", "jetstream", {"expectedStream": "DELAYS", "maxReplayDelay": "2m"})


@dp.temporary_view
def flown() -> DataFrame:
    """Read the stream without cancelled flights and without messages that are not JSON."""
    messages = (
        spark.readStream.format("jetstream").option("stream", "FLIGHTS").option("startingOffsets", "earliest").load()
    )
    flight = "from_json(CAST(data AS STRING), 'carrier STRING, scheduled TIMESTAMP, delay DOUBLE') AS flight"
    flights = messages.selectExpr("sequence", flight).select("sequence", "flight.*").where("delay IS NOT NULL")
    return flights.withWatermark("scheduled", "1 hour")


@dp.table(comment="Flights that left, each once")
def departures() -> DataFrame:
    """Store the flights."""
    return spark.readStream.table("flown")


@dp.materialized_view(comment="The carriers and how late they are")
def carriers() -> DataFrame:
    """Aggregate the stored flights by carrier."""
    return spark.read.table("departures").groupBy("carrier").agg(F.count("*").alias("flights"), F.avg("delay"))


@dp.append_flow(target="delays")
def delays_by_hour() -> DataFrame:
    """Publish each hour of each carrier, as soon as no more flights of that hour are expected."""
    hours = spark.readStream.table("flown").groupBy(F.window("scheduled", "1 hour").alias("hour"), "carrier")
    sums = hours.agg(F.count("*").alias("flights"), F.avg("delay").alias("mean_delay"))
    return sums.select(
        F.concat(F.lit("delays."), "carrier").alias("subject"),
        F.to_json(F.struct("carrier", "hour.start", "flights", "mean_delay")).alias("data"),
    )
