"""Behaviour of JetStream clients without I/O: what to send next and how to handle an answer. Fronts do the I/O.

- `publish_window`, `ack_runs`: publishes that wait for acknowledgements; `atomic_batch`: all messages or none;
- `pull/`: fetch, next and consume; `ordered`: every message once and in order, by pulls or a push
  subscription; `ordered_cursor`: its position and consumers; `ordered_config`: their configurations;
- `subscribe/`: the workflow of the classic subscriptions; `push/`: handling of messages in a push subscription;
  `pull_subscribe`: the fetch of pull subscriptions;
- `ranges`: reading a range of a stream once and in order; `direct_read`: many messages by direct get;
- `retry`: when to retry, and for how long.
"""
