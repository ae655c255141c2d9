"""The options by their subject. `jetspark.spark.options.table` has all of them."""
