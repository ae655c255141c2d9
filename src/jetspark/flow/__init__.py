"""JetStream's behaviour without I/O: what to send next and what an answer means. Fronts only drive it.

- `publish_window`, `ack_runs`: many publishes under way and their acknowledgements; `atomic_batch`: all or nothing;
- `pull/`: fetch, next and consume; `ordered`: every message once and in order, by pulls;
- `consumer_series`: the consumers behind an ordered reader, one after the other;
- `subscribing/`: the workflow of the classic subscriptions; `push/`: what a push subscription does with what comes;
  `pull_subscribe`: the fetch of pull subscriptions;
- `ranges`: reading a range of a stream once and in order; `direct_read`: many messages by direct get;
- `backoff`: how long to go on trying.
"""
