"""Finds fields and values of the server that the library does not know."""

from collections.abc import Iterator

from jetspark.jetstream.codec import JsonEnum, JsonStruct


def unknown_fields(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of every field that was kept in `extra`, and of every value that its enumeration does not list."""
    if isinstance(value, JsonStruct):
        yield from (f"{path}.{name}" for name in value.extra)
        for name in value.__struct_fields__:
            if name != "extra":
                yield from unknown_fields(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, JsonEnum):
        if value.name not in type(value).__members__:
            yield f"{path}={value}"
    elif isinstance(value, list):
        for item in value:
            yield from unknown_fields(item, f"{path}[]")
    elif isinstance(value, dict):
        for item in value.values():
            yield from unknown_fields(item, f"{path}{{}}")
