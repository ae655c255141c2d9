"""See `nats.errors`."""

from nats.errors import *  # noqa: F403
