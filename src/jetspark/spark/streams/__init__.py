"""What the source knows about its streams: the sequences that a read asks for, the offsets of a streaming query, and
the state of the streams as the server reported it last. Batch reads, streaming reads and commits share this
package."""
