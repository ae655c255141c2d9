"""The position of an ordered reader and the consumers of its reading, one after the other (ADR-17).

Each consumer is temporary. When a delivery is missing, the next consumer starts after the last good message. So each
message arrives once and in order, also if consumers are lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from jetspark.engine.ordered_stream import OnStreamRecreated, StreamCheck, StreamMatch, restarts
from jetspark.engine.push.gaps import GapDetector
from jetspark.jetstream.ack import AckMetadata, parse_ack_subject
from jetspark.jetstream.config import ConsumerConfig, DeliverPolicy
from jetspark.jetstream.errors import InvalidAckError, StreamRecreatedError
from jetspark.jetstream.info import ConsumerInfo, StreamInfo
from jetspark.jetstream.names import check_consumer_name, new_name
from jetspark.wire.messages import Message
from jetspark.wire.untrusted import parse_number

__all__ = ["OrderedCursor"]


class OrderedCursor:
    """Position of an ordered reader: its consumers, and the numbers of their deliveries.

    Parameters
    ----------
    config
        Configuration that all consumers share.
    prefix
        Prefix of the consumers' names; None creates a random one. Each name gets its own number, so that no creation
        collides with a former one.
    on_stream_recreated
        Whether the reader ends or starts again when its stream was created again.

    Attributes
    ----------
    serial
        Number of the current consumer, 0 before the first.
    last_sequence
        Stream sequence of the last good message; None before the first.
    start
        Stream sequence after which the current consumer starts.
    pending
        Number of messages that the current consumer had to deliver when it was created.
    stream
        The known facts about its stream.
    restarts
        Whether the reader starts again when its stream was created again.
    accepted_count
        Number of good messages of all consumers.
    """

    def __init__(
        self, config: ConsumerConfig, prefix: str | None = None, on_stream_recreated: OnStreamRecreated = "error"
    ) -> None:
        self.restarts = restarts(on_stream_recreated)
        self.stream = StreamCheck()
        self._restarted_serial = 0
        self._config = config
        self._prefix = new_name() if prefix is None else check_consumer_name(prefix)
        self._gaps = GapDetector(0)
        self.serial = 0
        self.last_sequence: int | None = None
        self.start = self.pending = self.accepted_count = 0

    @property
    def name(self) -> str:
        """Name of the current consumer."""
        return f"{self._prefix}_{self.serial}"

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subjects that it reads; `>` for all."""
        return tuple(self._config.filter_subjects or [self._config.filter_subject or ">"])

    @property
    def delivered(self) -> int:
        """Number of deliveries received from the current consumer."""
        return self._gaps.last or 0

    def next_config(self) -> ConsumerConfig:
        """Return the next configuration: it starts after the last good message, or as set if there is none (ORD-06).

        The numbers of deliveries start again.
        """
        self.serial += 1
        self._gaps = GapDetector(0)
        config = self._config.replace(name=self.name)
        return config if self.last_sequence is None else config.starting_after(self.last_sequence)

    def created(self, info: ConsumerInfo) -> None:
        """Handle a created consumer. With deliver policy `new`, its start also counts for the next consumers."""
        self.stream.consumer_created(info)
        sent = info.delivered.consumer_sequence  # a push consumer may have delivered messages before the answer
        self.start = 0 if sent else info.delivered.stream_sequence
        self.pending = info.num_pending + sent
        if self.last_sequence is None and not sent and self._config.deliver_policy == DeliverPolicy.NEW:
            self.last_sequence = self.start

    def accept(self, messages: Sequence[Message]) -> tuple[int, AckMetadata | None]:
        """Check a series of deliveries; return how many are good, and the metadata of the last good one.

        Deliveries come in the order of their numbers, so the number of the last one shows whether one is missing. Only
        then the method checks each of them.
        """
        last = _metadata(messages[-1])
        expected = self.delivered + len(messages)
        if last is not None and last.consumer_sequence == expected:
            self._gaps.last = expected
            good = len(messages)
        else:
            good = self._gaps.scan(list(messages))
            last = _metadata(messages[good - 1]) if good else None
        self.accepted_count += good
        if last is not None:
            self.last_sequence = last.stream_sequence
        return good, last

    def heartbeat(self, last_consumer_sequence: int) -> bool:
        """Return whether a heartbeat reports deliveries that did not arrive (ORD-04)."""
        return self._gaps.heartbeat(last_consumer_sequence)

    def rewind(self, message: Message) -> None:
        """Let the next consumer start with this message, because the program did not get it."""
        place = parse_ack_subject(message.reply)
        serial = parse_number(place.consumer.rpartition("_")[2])
        if self._restarted_serial and serial is not None and serial <= self._restarted_serial:
            self.last_sequence = None  # of the former stream: no message of the present one was taken
        else:
            self.last_sequence = place.stream_sequence - 1

    def compare(self, stream: StreamInfo) -> StreamMatch:
        """Compare the stream of the next consumer with the one that is read."""
        return self.stream.compare(stream, self._position, self.last_sequence or 0)

    @property
    def _position(self) -> int:
        """Sequence after which the next consumer starts."""
        if self.last_sequence is not None:
            return self.last_sequence
        return (self._config.opt_start_seq or 1) - 1

    def recreated_error(self, stream: StreamInfo) -> StreamRecreatedError:
        """Return the error for a stream that was created again, or of which an older state was restored."""
        name, created = stream.config.name or "", stream.created
        if created != self.stream.created:
            what = f"was deleted and created again at {created.isoformat()}"
        else:
            what = f"ends at sequence {stream.state.last_sequence}: it lost messages, or an older state was restored"
        then = (
            "it starts again at the beginning of the present one"
            if self.restarts
            else "read the present one with a new reader, or set on_stream_recreated='restart'"
        )
        text = f"stream {name!r} {what}; the ordered reader is at sequence {self._position} of the former one; {then}"
        return StreamRecreatedError(text, stream=name, last_sequence=self._position)

    @property
    def awaits_stream(self) -> bool:
        """Whether a stream that was deleted may be created again, so that the reader starts again."""
        return self.restarts and self.stream.begun

    def restart(self, stream: StreamInfo) -> None:
        """Let the next consumer start at the beginning of this stream: all its messages are newer than the reader.

        Only a start time, and the last messages of all subjects, have a meaning for it.
        """
        self.stream.begin(stream)
        self.last_sequence = None
        self.start = 0
        self._restarted_serial = self.serial
        if self._config.deliver_policy not in {DeliverPolicy.BY_START_TIME, DeliverPolicy.LAST_PER_SUBJECT}:
            self._config = self._config.replace(deliver_policy=DeliverPolicy.ALL, opt_start_seq=None)


def _metadata(message: Message) -> AckMetadata | None:
    try:
        return parse_ack_subject(message.reply)
    except InvalidAckError:
        return None
