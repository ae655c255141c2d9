"""The demo, `make demo`: a year of flights through JetStream and Spark and back, every message counted.

- `publish`: flights as JSON into the stream FLIGHTS;
- `queries`: streaming queries write them into Parquet, and the delays of every hour into DELAYS;
- `driver`, `session`: Spark in a process of its own, which is killed in the middle and started again;
- `counts`: what came of it, counted by Spark;
- `run`: all of that in its order;
- `checks`: what must hold;
- `picture`, `report`: what is shown.
"""
