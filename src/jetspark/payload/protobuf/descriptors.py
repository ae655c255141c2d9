"""Descriptors of Protobuf messages, in a pool of their own: two formats may use one name for different messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.jetstream.errors import ConfigError
from jetspark.wire.arguments import nearest_name

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

__all__ = ["MAX_DESCRIPTORS", "is_repeated", "is_required", "message_class", "message_descriptor"]

MAX_DESCRIPTORS: Final = 4 << 20
"""Bytes of a descriptor set."""
_SHOWN_NAMES: Final = 20
_LABEL_REQUIRED, _LABEL_REPEATED = 2, 3


def message_descriptor(data: bytes, name: str, *, plain: bool = False) -> Descriptor:
    """Return the descriptor of a message.

    Parameters
    ----------
    data
        A descriptor set, as `protoc --include_imports --descriptor_set_out` writes it.
    name
        Full name of the message, or its own name if no other message of the set has it.
    plain
        Whether fields of text become fields of bytes. They have the same encoding, and are read without a check.

    Raises
    ------
    ConfigError
        The set is broken, or has no such message or several.
    """
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError:
        raise ConfigError(
            "the Protobuf descriptors are no descriptor set, as protoc --descriptor_set_out writes"
        ) from None
    full = _full_name(list(files.file), name)
    if plain:
        for file in files.file:
            for message in file.message_type:
                _make_plain(message)
    return _built(list(files.file), full)


def message_class(descriptor: Descriptor) -> type[Message]:
    """Return the class of messages with a descriptor."""
    from google.protobuf import message_factory

    kind: type[Message] = message_factory.GetMessageClass(descriptor)
    return kind


def is_repeated(field: FieldDescriptor) -> bool:
    """Return whether a field is a list or a map."""
    # Older versions of the library have only the label, newer ones only the property.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == _LABEL_REPEATED


def is_required(field: FieldDescriptor) -> bool:
    """Return whether a message without a field is broken."""
    return bool(field.is_required) if hasattr(field, "is_required") else field.label == _LABEL_REQUIRED


def _full_name(files: list[FileDescriptorProto], name: str) -> str:
    known = [each for file in files for message in file.message_type for each in _names(message, file.package)]
    if name in known:
        return name
    found = [each for each in known if each.rpartition(".")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"messageName {name!r} may be {' or '.join(found[:_SHOWN_NAMES])}; give the full name")
    nearest = nearest_name(name, known)
    hint = f"; did you mean {nearest}?" if nearest else ""
    shown = ", ".join(known[:_SHOWN_NAMES]) + (f" and {len(known) - _SHOWN_NAMES} more" * (len(known) > _SHOWN_NAMES))
    raise ConfigError(f"the Protobuf descriptors have no message {name[:100]!r}{hint} They have: {shown or 'none'}")


def _names(message: DescriptorProto, parent: str) -> list[str]:
    name = f"{parent}.{message.name}" if parent else message.name
    if message.options.map_entry:
        return []
    return [name, *(each for inner in message.nested_type for each in _names(inner, name))]


def _make_plain(message: DescriptorProto) -> None:
    for field in message.field:
        is_key = message.options.map_entry and field.number == 1  # bytes cannot be keys
        if field.type == field.TYPE_STRING and not is_key:
            field.type = field.TYPE_BYTES
            field.ClearField("default_value")  # it would be read with escapes
    for inner in message.nested_type:
        _make_plain(inner)


def _built(files: list[FileDescriptorProto], name: str) -> Descriptor:
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    waiting = {file.name: file for file in files}
    while waiting:
        # A set has files in the order of their imports, but does not have to.
        ready = [file for file in waiting.values() if not any(each in waiting for each in file.dependency)]
        if not ready:
            raise ConfigError("the Protobuf descriptors have files that import each other")
        for file in ready:
            del waiting[file.name]
            try:
                pool.AddSerializedFile(file.SerializeToString())
            except Exception as error:  # noqa: BLE001 - the library raises several types
                raise ConfigError(
                    f"the Protobuf descriptors of {file.name} are wrong: {error}; protoc --include_imports adds imports"
                ) from None
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise ConfigError(f"the Protobuf descriptors have no message {name}") from None
