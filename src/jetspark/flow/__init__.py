"""JetStream's behaviour without I/O: what to send next and what an answer means. Fronts only drive it.

- `ranges`: reading a range of a stream once and in order, by pulls.
"""
