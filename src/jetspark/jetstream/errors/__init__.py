"""The one error tree.

- `client`: the connection, time-outs and the caller's own mistakes;
- `api`: what the JetStream API answers, by its error number;
- `status`: what a consumer answers to a pull instead of messages.
"""

from __future__ import annotations

from jetspark.jetstream.errors.api import *  # noqa: F403
from jetspark.jetstream.errors.api import __all__ as _api
from jetspark.jetstream.errors.base import Error
from jetspark.jetstream.errors.client import *  # noqa: F403
from jetspark.jetstream.errors.client import __all__ as _client
from jetspark.jetstream.errors.codes import api_error
from jetspark.jetstream.errors.status import *  # noqa: F403
from jetspark.jetstream.errors.status import __all__ as _status

__all__ = ["Error", "api_error"]
__all__ += _api
__all__ += _client
__all__ += _status
