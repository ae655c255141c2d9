"""JetStream errors with the names of nats-py, and its texts for some of them."""

from contextlib import contextmanager

from jetspark import errors as js
from nats.js import api

__all__ = [
    "APIError",
    "BadBucketError",
    "BadRequestError",
    "BucketNotFoundError",
    "Error",
    "FetchTimeoutError",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "KeyHistoryTooLargeError",
    "KeyNotFoundError",
    "KeyWrongLastSequenceError",
    "NoKeysError",
    "NoStreamResponseError",
    "NotFoundError",
    "ObjectAlreadyExists",
    "ObjectDeletedError",
    "ObjectNotFoundError",
    "TooManyStalledMsgsError",
    "api",
    "renamed",
]

Error = js.Error
APIError = (js.APIError, js.StatusError)
NotFoundError = (js.NotFoundError, js.NoMatchingStreamError, js.KeyNotFoundError, js.ObjectNotFoundError)
# nats-py uses the class of the HTTP code, 400, and jetspark the class of the number: these are its classes for them.
BadRequestError = (
    js.BadRequestError,
    js.ConsumerConfigError,
    js.PublishExpectationError,
    js.StreamConfigError,
    js.StreamSealedError,
)
NoStreamResponseError = js.NoStreamResponseError
TooManyStalledMsgsError = js.TooManyStalledError
FetchTimeoutError = js.NoMessageError
BadBucketError = js.BadBucketError
BucketNotFoundError = js.BucketNotFoundError
InvalidBucketNameError = js.InvalidBucketNameError
InvalidKeyError = js.InvalidKeyError
KeyHistoryTooLargeError = js.HistoryTooLargeError
ObjectAlreadyExists = js.ObjectExistsError
ObjectDeletedError = ObjectNotFoundError = js.ObjectNotFoundError


class KeyNotFoundError(js.KeyNotFoundError):
    """A key that has no value; also for a deleted one, with its marker."""

    def __init__(self, text, entry=None, op=None):
        super().__init__(text)
        self.entry = entry
        self.op = op


class KeyWrongLastSequenceError(js.WrongLastRevisionError):
    """A key whose newest revision is another one."""

    def __init__(self, error, text):
        super().__init__(error.bucket, error.key, error.expected, error.actual)
        self._text = text

    def __str__(self):
        return self._text


class NoKeysError(js.Error):
    """There are no keys."""


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
    if "metadata takes" in text:
        return ValueError("nats: invalid metadata format")
    return error
