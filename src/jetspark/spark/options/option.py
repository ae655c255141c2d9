"""One option of `format("jetstream")`, and the kinds of reads and writes that it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

__all__ = ["NONE", "Option", "Use"]

NONE: Final = "none"
"""The default of an option that has none, for the documentation."""
T_co = TypeVar("T_co", covariant=True)


class Use(Enum):
    """The kinds of reads and writes that an option is for."""

    BOTH = "read, write"
    READ = "read"
    READ_STREAM = "streaming read"
    WRITE = "write"
    WRITE_STREAM = "streaming write"

    @property
    def accepted_uses(self) -> frozenset[Use]:
        """Uses of the options that have an effect here."""
        wider = {Use.READ_STREAM: Use.READ, Use.WRITE_STREAM: Use.WRITE}
        return frozenset({Use.BOTH, self, wider.get(self, self)})


@dataclass(frozen=True)
class Option(Generic[T_co]):
    """One option of the table.

    Attributes
    ----------
    name
        Name in camel case.
    kind
        Kind of its text, for the documentation.
    parse
        Parser of the text: returns the value, or raises ValueError.
    default
        Value if the option is not given.
    default_text
        The default, for the documentation.
    meaning
        Description, for the documentation.
    use
        Kinds of reads and writes that it is for.
    kafka_option
        The similar option of Spark's Kafka source or sink; empty if there is none.
    secret
        Whether its value is secret. A secret value never appears in an error.
    """

    name: str
    kind: str
    parse: Callable[[str], T_co]
    default: T_co
    default_text: str
    meaning: str
    use: Use = Use.BOTH
    kafka_option: str = ""
    secret: bool = False
