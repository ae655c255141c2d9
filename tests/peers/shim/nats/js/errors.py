"""Errors of JetStream under nats-py's names, and the words that it has for some of them."""

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
BadRequestError = js.Error  # nats-py goes by the class of the number (400), jetspark by the number itself
NoStreamResponseError = js.NoStreamResponseError
TooManyStalledMsgsError = js.TooManyStalledError
FetchTimeoutError = js.NoMessageError


@contextmanager
def renamed(queue=""):
    """Tell errors in nats-py's words, where its suite compares words."""
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
        raise _told(error) from error


def _told(error):
    text = str(error)
    if "have to be equal" in text:
        return js.api_error(400, 10017, "consumer name in subject does not match durable name in request")
    if "needs the name of its stream" in text:
        return ValueError("nats: stream name is required")
    if "at most half of its expires" in text:
        return js.BadPullRequestError(400, "Bad Request - heartbeat value too large")
    if ".metadata" in text:
        return ValueError("nats: invalid metadata format")
    return error
