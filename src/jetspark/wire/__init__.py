"""The NATS client protocol without I/O: bytes in, frames out; commands in, bytes out.

- `frames`: scalar parser and serialiser, one frame at a time;
- `vector`: whole buffers at once, frames <-> Arrow columns (needs the `arrow` extra);
- `headers`: header block and inline status (ADR-4);
- `options`, `session`: where and how to connect, and the handshake that opens a connection;
- `errors`: root of the error tree.
"""
