"""JetStream errors with the names of nats-py, and its texts for some of them."""

from contextlib import contextmanager

from jetspark import errors as js

__all__ = [
    "APIError",
    "BadRequestError",
    "Error",
    "FetchTimeoutError",
    "NoStreamResponseError",
    "NotFoundError",
    "TooManyStalledMsgsError",
    "renamed",
]

Error = js.Error
APIError = (js.APIError, js.StatusError)
NotFoundError = (js.NotFoundError, js.NoMatchingStreamError)
# nats-py uses the class of the HTTP code, 400, and jetspark the class of the number: these are its classes for them.
BadRequestError = (js.BadRequestError, js.ConsumerConfigError, js.PublishExpectationError, js.StreamConfigError)
NoStreamResponseError = js.NoStreamResponseError
TooManyStalledMsgsError = js.TooManyStalledError
FetchTimeoutError = js.NoMessageError


@contextmanager
def renamed(queue=""):
    """Raise errors with the texts of nats-py, if its suite compares texts."""
    try:
        yield
    except js.BadNameError as error:
        raise ValueError(f"nats: invalid {str(error).split()[0]} name: {error}") from error
    except js.ConsumerAlreadyBoundError as error:
        error.description = "consumer is already bound to a subscription"
        raise
    except js.DeliverGroupMissingError as error:
        error.description = f"cannot create queue subscription '{queue}' to consumer '{error.consumer}'"
        raise
    except js.ConfigError as error:
        raise _worded(error) from error


def _worded(error):
    """Return the same error, also as a ValueError, with the text that the suite compares."""
    text = str(error)
    if "needs the name of its stream" in text:
        return ValueError("nats: stream name is required")
    if ".metadata" in text:
        return ValueError("nats: invalid metadata format")
    return error
