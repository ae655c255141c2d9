"""JetStream for Python, and JetStream as a first-class Spark source and sink."""

__version__ = "0.1.0"
