"""Every error of the library, under one short name. The tree itself is `jetspark.jetstream.errors`."""

from jetspark.jetstream.errors import *  # noqa: F403
from jetspark.jetstream.errors import __all__ as __all__
