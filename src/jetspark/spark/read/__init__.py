"""Batch and streaming reads: the driver plans partitions, and each task reads its own range of a stream. The package
also pushes filters down to the server and decides the size of a micro-batch."""
