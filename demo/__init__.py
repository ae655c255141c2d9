"""The demo, `make demo`: a year of flights through JetStream and Spark and back, every message counted.

- `publish`: flights as JSON into the stream FLIGHTS;
- `session`: a Spark session that keeps quiet;
- `analyse`: Spark reads FLIGHTS, writes Parquet, publishes the delays to DELAYS and reads them back;
- `checks`: what must hold;
- `picture`, `report`: what is shown.
"""
