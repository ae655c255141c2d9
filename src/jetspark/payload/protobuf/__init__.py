"""Payloads as Protobuf messages."""

from __future__ import annotations

import base64
import importlib.util
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from jetspark.jetstream.errors import ConfigError
from jetspark.payload.faults import Faults
from jetspark.payload.formats import Decoded
from jetspark.payload.options import FormatOptions
from jetspark.payload.protobuf.decode import decode_messages
from jetspark.payload.protobuf.descriptors import MAX_DESCRIPTORS, message_class, message_descriptor
from jetspark.payload.protobuf.encode import encode_messages
from jetspark.payload.protobuf.plan import Field, Natural, natural_schema, plan_message
from jetspark.wire.files import read_file

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

__all__ = ["ProtobufFormat", "create", "infer_schema"]


@dataclass(frozen=True)
class ProtobufFormat:
    """Fields of Protobuf messages; see `PayloadFormat`.

    Attributes
    ----------
    schema
        Columns.
    descriptors
        A descriptor set.
    message
        Name of the message.
    zeros
        Whether a field without presence is zero if it is not there; otherwise it is null.
    """

    schema: pa.Schema
    descriptors: bytes
    message: str
    zeros: bool = False

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without descriptors of the library, which have no pickle."""
        return ProtobufFormat, (self.schema, self.descriptors, self.message, self.zeros)

    def __repr__(self) -> str:
        """Return a text without the descriptors."""
        return f"ProtobufFormat(message={self.message!r}, schema={self.schema.names!r})"

    @cached_property
    def descriptor(self) -> Descriptor:
        """Descriptor of the message. Raises ConfigError if there is none."""
        return message_descriptor(self.descriptors, self.message)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The way from the message to the columns. Raises ConfigError for a column that it cannot give."""
        if not len(self.schema):
            raise ConfigError("payload format protobuf needs a column: a field of the message")
        return plan_message(self.descriptor, list(self.schema))

    @cached_property
    def _plain_class(self) -> type[Message]:
        return message_class(message_descriptor(self.descriptors, self.message, plain=True))

    def decode(self, payloads: pa.BinaryArray) -> Decoded:
        """Return the fields of the messages. A payload that is no message is a bad record."""
        faults = Faults(payloads)
        columns = decode_messages(payloads, self._plain_class, self.fields, faults, zeros=self.zeros)
        return faults.decoded(columns, self.schema)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """Return the rows as messages. Raises PayloadError for a value that does not fit."""
        return encode_messages(rows, self.descriptor, self.fields)


def create(schema: pa.Schema, options: FormatOptions) -> ProtobufFormat:
    """Return the format.

    Raises
    ------
    ConfigError
        The descriptors are missing or broken, have no such message, or the message cannot give a column.
    ModuleNotFoundError
        The package protobuf is missing.
    """
    descriptors, message = _message(options)
    made = ProtobufFormat(schema, descriptors, message, options.get("emit.default.values", bool))
    assert made.fields
    return made


def infer_schema(payloads: pa.BinaryArray | None, options: FormatOptions) -> pa.Schema:  # noqa: ARG001 - it has them
    """Return the columns of all fields of the message, with the types of Spark's from_protobuf."""
    natural = Natural(
        enums_as_ints=options.get("enums.as.ints", bool),
        upcast_unsigned=options.get("upcast.unsigned.ints", bool),
        unwrap=options.get("unwrap.primitive.wrapper.types", bool),
        max_depth=options.get("recursive.fields.max.depth", int),
    )
    return natural_schema(message_descriptor(*_message(options)), natural)


def _message(options: FormatOptions) -> tuple[bytes, str]:
    """Return the descriptor set and the name of the message."""
    if importlib.util.find_spec("google") is None or importlib.util.find_spec("google.protobuf") is None:
        problem = "payload format protobuf needs protobuf: pip install 'jetspark[protobuf]'"
        raise ModuleNotFoundError(problem, name="google.protobuf")
    text, path = options.get("protobufDescriptor", str), options.get("protobufDescriptorFile", str)
    name = options.get("messageName", str)
    if text and path:
        raise ConfigError("options protobufDescriptor and protobufDescriptorFile contradict each other")
    if not name or not (text or path):
        raise ConfigError("payload format protobuf needs options messageName and protobufDescriptorFile")
    if path:
        return read_file(path, "file of Protobuf descriptors", MAX_DESCRIPTORS), name
    if len(text) > MAX_DESCRIPTORS * 4 // 3:
        raise ConfigError(f"option protobufDescriptor has more than {MAX_DESCRIPTORS} bytes")
    try:
        return base64.b64decode(text, validate=True), name
    except ValueError as error:
        raise ConfigError(f"option protobufDescriptor is not base64: {error}") from None
