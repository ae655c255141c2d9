"""JetStream's vocabulary, without I/O: configurations, requests, replies, ack subjects, statuses and errors.

- `errors`: the one error tree; `codec`: JSON to structs and back; `times`: exact times and durations;
- `config`, `info`: what streams and consumers are told to be, and what they are;
- `api`: requests as values; `ack`: ack subjects; `names`: what may stand in a subject.
"""
