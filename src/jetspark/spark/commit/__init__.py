"""What happens after Spark has committed a micro-batch: the streams may release the messages that were read. The
package also reads Spark's checkpoint, to release the last micro-batch of a query that has ended."""
