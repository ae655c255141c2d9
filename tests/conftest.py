"""Settings for all tests."""

import gc

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.blocking_methods", "tests.conformance_plugin", "tests.layers")

# The time of an example says nothing on a machine that others use too.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Exclude the objects of the collection from garbage collection, because each leak check runs it."""
    gc.collect()
    gc.freeze()
