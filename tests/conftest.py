"""What all rooms share."""

pytest_plugins = ("tests.conformance_plugin",)
