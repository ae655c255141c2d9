"""Keep the table `users` equal to the key-value bucket USERS: its changes are applied by Auto CDC.

The environment variable `NATS_URL` has the address of the server. The first run begins with the present content of the
bucket. Each later run applies the changes since the last one. Spark needs a table format with MERGE for the table, such
as Delta Lake or Iceberg.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.temporary_view
def changes() -> DataFrame:
    """Read the bucket as it was at the first run, and all changes since."""
    reader = spark.readStream.format("jetstream").option("bucket", "USERS").option("initialSnapshot", "true")
    return reader.schema("key STRING, value STRING, revision BIGINT, operation STRING").load()


dp.create_streaming_table("users")
dp.create_auto_cdc_flow(
    target="users",
    source="changes",
    keys=["key"],
    sequence_by="revision",
    apply_as_deletes="operation <> 'PUT'",
    except_column_list=["operation"],
    stored_as_scd_type=1,
)
