"""Spark: filled next."""
