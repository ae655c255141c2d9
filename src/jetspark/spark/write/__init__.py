"""Batch and streaming writes: each task publishes its rows with message ids, so that a repeated task stores no row
twice. The package also keeps the ledger of a streaming query's tasks."""
