"""What all rooms share."""

import gc

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.conformance_plugin", "tests.layers")

# How long an example takes says nothing on a machine that others use, too.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Leave what the collection made out of garbage collection: the leak check collects after each test."""
    gc.collect()
    gc.freeze()
