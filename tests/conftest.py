"""What all rooms share."""

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.conformance_plugin", "tests.layers")

# How long an example takes says nothing on a machine that others use, too.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
