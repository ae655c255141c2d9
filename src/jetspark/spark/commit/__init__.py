"""The release of messages: after Spark has committed a micro-batch, the streams may drop the messages that it read.
The package also reads Spark's checkpoint, to release the last micro-batch of a query that has ended."""
