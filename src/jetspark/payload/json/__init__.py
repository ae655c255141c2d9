"""JSON payloads <-> typed columns. The result equals that of Spark's from_json with the same schema and options."""
