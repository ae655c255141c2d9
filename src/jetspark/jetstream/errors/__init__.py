"""The one error tree.

- `jetspark.wire.errors`: its root, the connection, time-outs and the caller's own mistakes;
- `api`: what the JetStream API answers, by its error number;
- `status`: what a consumer answers to a pull, or a stream to a direct get, instead of messages.
"""

from __future__ import annotations

from jetspark.jetstream.errors.api import *  # noqa: F403
from jetspark.jetstream.errors.api import __all__ as _api
from jetspark.jetstream.errors.codes import api_error
from jetspark.jetstream.errors.status import *  # noqa: F403
from jetspark.jetstream.errors.status import __all__ as _status
from jetspark.wire.errors import *  # noqa: F403
from jetspark.wire.errors import __all__ as _wire

__all__ = ["api_error"]
__all__ += _api
__all__ += _status
__all__ += _wire
