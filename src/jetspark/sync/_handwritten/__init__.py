"""The parts of the blocking JetStream front that `tools/make_sync.py` cannot generate."""
