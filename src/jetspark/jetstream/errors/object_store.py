"""Errors of object stores. None of them shows content of an object."""

from __future__ import annotations

from jetspark.wire.errors import DataLossError, Error

__all__ = [
    "BadObjectError",
    "DigestMismatchError",
    "InvalidObjectNameError",
    "LinkError",
    "ObjectChangedError",
    "ObjectExistsError",
    "ObjectIncompleteError",
    "ObjectNotFoundError",
    "WrongDomainError",
]


class ObjectNotFoundError(Error, LookupError):
    """There is no such object: it was never put, or is deleted.

    Attributes
    ----------
    bucket, name
        Name of the bucket, and of the object.
    """

    def __init__(self, message: str = "", *, bucket: str = "", name: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket
        self.name = name


class ObjectIncompleteError(DataLossError):
    """Chunks of the object are missing, or their sizes do not sum up to the object's size."""


class DigestMismatchError(DataLossError):
    """The content of the object does not have the digest that its writer computed."""


class ObjectChangedError(DataLossError):
    """The object was replaced or deleted while it was read. Read it again."""


class ObjectExistsError(Error, ValueError):
    """An object of that name exists; nothing was changed.

    Attributes
    ----------
    bucket, name
        Name of the bucket, and of the object.
    """

    def __init__(self, message: str = "", *, bucket: str = "", name: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket
        self.name = name


class BadObjectError(Error, ValueError):
    """The stored description of an object cannot be read."""


class LinkError(Error, ValueError):
    """A link cannot be made or followed."""


class InvalidObjectNameError(Error, ValueError):
    """The name of an object cannot be used; nothing was sent."""


class WrongDomainError(Error, ValueError):
    """A bucket of another domain has the same name, and has stored a part of an object, too.

    The part is removed from the bucket of this domain.

    Attributes
    ----------
    bucket
        Name of the bucket.
    expected, actual
        The domain of the context, and the one that has answered.
    """

    def __init__(self, message: str = "", *, bucket: str = "", expected: str = "", actual: str = "") -> None:
        super().__init__(message)
        self.bucket = bucket
        self.expected = expected
        self.actual = actual
