"""CSV payloads <-> typed columns: one payload is one record. The result equals that of Spark's from_csv and to_csv."""
