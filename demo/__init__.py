"""The demo, `make demo`: sends a year of flights through JetStream and Spark and back, and counts every message.

- `publish`: publishes flights as JSON to the stream FLIGHTS;
- `queries`: streaming queries that write them to Parquet, and the delays of every hour to DELAYS;
- `driver`, `session`: Spark in a process of its own, which is killed in the middle and started again;
- `counts`: the results, counted by Spark;
- `run`: runs all stages in order;
- `checks`: the conditions that must be true at the end;
- `picture`, `report`: output.
"""
