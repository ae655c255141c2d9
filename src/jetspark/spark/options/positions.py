"""Where the reads of streams begin and end, by the options. Times come before offsets, as in Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.times import format_rfc3339
from jetspark.spark.options import table
from jetspark.spark.options.option import Option
from jetspark.spark.options.parsed import ParsedOptions
from jetspark.spark.options.stream_pattern import StreamPattern
from jetspark.spark.options.values import Position, PositionKind

__all__ = [
    "EARLIEST",
    "END_OPTIONS",
    "LATEST",
    "START_OPTIONS",
    "Positions",
    "check_order",
    "end_positions",
    "start_positions",
]

START_OPTIONS: Final[tuple[Option[object], ...]] = (
    table.STARTING_OFFSETS,
    table.STARTING_TIMESTAMP,
    table.STARTING_BY_TIMESTAMP,
)
END_OPTIONS: Final[tuple[Option[object], ...]] = (
    table.ENDING_OFFSETS,
    table.ENDING_TIMESTAMP,
    table.ENDING_BY_TIMESTAMP,
)
EARLIEST: Final = Position(PositionKind.EARLIEST)
LATEST: Final = Position(PositionKind.LATEST)


@dataclass(frozen=True, slots=True)
class Positions(Mapping[str, Position]):
    """The positions of streams, also of those whose names are not known yet.

    Attributes
    ----------
    option
        Name of the option that applies.
    common
        Position of every stream; None if each stream needs its own.
    named
        Position of single streams.
    """

    option: str
    common: Position | None
    named: Mapping[str, Position] = field(default_factory=dict)

    def __getitem__(self, stream: str) -> Position:
        position = self.named.get(stream, self.common)
        if position is None:
            raise ConfigError(f"option {self.option} has no position for stream {stream}; give one for every stream")
        return position

    def __iter__(self) -> Iterator[str]:
        return iter(self.named)

    def __len__(self) -> int:
        return len(self.named)


def start_positions(parsed: ParsedOptions, names: tuple[str, ...] | StreamPattern, default: Position) -> Positions:
    """Return where a read begins in each stream. Raises ConfigError for a stream that is not read, or is missing."""
    found = _positions(parsed, default, table.STARTING_TIMESTAMP, table.STARTING_BY_TIMESTAMP, table.STARTING_OFFSETS)
    _check_names(parsed, found, names)
    return found


def end_positions(parsed: ParsedOptions, names: tuple[str, ...] | StreamPattern) -> Positions:
    """Return where a read ends in each stream. Raises ConfigError as `start_positions`."""
    found = _positions(parsed, LATEST, table.ENDING_TIMESTAMP, table.ENDING_BY_TIMESTAMP, table.ENDING_OFFSETS)
    _check_names(parsed, found, names)
    return found


def _positions(
    parsed: ParsedOptions,
    default: Position,
    timestamp: Option[int | None],
    by_timestamp: Option[dict[str, int] | None],
    offsets: Option[Position | dict[str, Position]],
) -> Positions:
    must_exist = offsets is table.STARTING_OFFSETS and parsed[table.STARTING_STRATEGY] == "error"
    time, times = parsed[timestamp], parsed[by_timestamp]
    if time is not None:
        return Positions(timestamp.name, Position(PositionKind.TIME, time, must_exist))
    if times is not None:
        named = {name: Position(PositionKind.TIME, each, must_exist) for name, each in times.items()}
        return Positions(by_timestamp.name, None, named)
    if offsets not in parsed:
        return Positions(offsets.name, default)
    position = parsed[offsets]
    if isinstance(position, Position):
        return Positions(offsets.name, position)
    return Positions(offsets.name, None, position)


def _check_names(parsed: ParsedOptions, found: Positions, names: tuple[str, ...] | StreamPattern) -> None:
    if isinstance(names, StreamPattern):
        for name in found:
            if not names.matches(name):
                raise ConfigError(
                    f"option {found.option} names stream {name}, which option {table.STREAM_PATTERN.name} = {names} "
                    "does not match"
                )
        return
    noun = next((each.name for each in (table.BUCKET, table.OBJECTS) if each in parsed), table.STREAM.name)
    for name in found:
        if name not in names:
            raise ConfigError(
                f"option {found.option} names {noun} {name}, which is not in option {noun}: {', '.join(names)}"
            )
    for name in names if found.common is None else ():
        if name not in found.named:
            raise ConfigError(f"option {found.option} has no position for {noun} {name}; give one for every {noun}")


def check_order(name: str, starts: Positions, ends: Positions) -> None:
    """Check that a batch read of a stream reads something. Raises ConfigError."""
    start, end = starts[name], ends[name]
    if start.kind is PositionKind.LATEST:
        raise ConfigError(f"option {starts.option}: a batch read that starts at the latest message reads nothing")
    if end.kind is PositionKind.EARLIEST:
        raise ConfigError(f"option {ends.option}: a batch read that ends at the earliest message reads nothing")
    if start.kind is end.kind and start.value > end.value:
        values = [format_rfc3339(p.value) if p.kind is PositionKind.TIME else str(p.value) for p in (start, end)]
        raise ConfigError(
            f"option {starts.option} ({values[0]}) is after option {ends.option} ({values[1]}) for {name}"
        )
