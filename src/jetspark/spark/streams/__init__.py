"""The streams of a read: the requested sequences, the offsets of a streaming query, and the state that the server
reported last. Batch reads, streaming reads and commits share this package."""
