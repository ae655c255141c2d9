"""What to do with what a push consumer sends, a batch at a time.

Messages are looked at when they arrive, not when they are taken: a gap is noticed and an ordered consumer replaced
although nobody reads, and a slow reader is no gap. For each message that costs one short slice of its ack subject.
Statuses are rare and handled one by one, in their place between the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jetspark.flow.push.gaps import GapDetector
from jetspark.jetstream import header_names
from jetspark.jetstream.ack import parse_ack_subject
from jetspark.jetstream.errors import ConsumerSequenceMismatchError, Error, InvalidAckError
from jetspark.jetstream.status import FetchEffect, StatusClass, classify
from jetspark.wire.headers import Status
from jetspark.wire.messages import Message

__all__ = ["Action", "Alert", "Deliver", "FlowRequest", "PushEngine", "Reset"]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand messages on."""

    messages: list[Message]
    """In order."""


@dataclass(frozen=True, slots=True)
class FlowRequest:
    """The server asks for flow control behind everything that was handed on before."""

    subject: bytes
    """Where to answer."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Tell the error callback."""

    error: Error
    """What went wrong."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Make the next consumer of an ordered subscription; what was not handed on is dropped."""

    reason: Error
    """Why."""


Action: TypeAlias = Deliver | FlowRequest | Alert | Reset


class PushEngine:
    """See the module.

    Parameters
    ----------
    name
        Names the consumer in errors.
    gaps
        Watches the consumer's numbering; None for queue groups, whose members each see a part of it (GAP-05).
    control
        Heartbeats and flow control are ours to handle; not so in queue groups, where they reach a random member.
    ordered
        A gap is a reason for the next consumer, not for a notice.
    """

    def __init__(
        self,
        name: str,
        *,
        gaps: GapDetector | None = None,
        control: bool = True,
        ordered: bool = False,
    ) -> None:
        self._name = name
        self._gaps = gaps
        self._control = control
        self._ordered = ordered
        self._broken = False
        self._last_reply = self._reply_before = b""

    @property
    def broken(self) -> bool:
        """The order is lost: everything is dropped until `renewed`."""
        return self._broken

    @property
    def last_sequence(self) -> int:
        """Stream sequence of the last message that was handed on; 0 when there was none."""
        return parse_ack_subject(self._last_reply.decode()).stream_sequence if self._last_reply else 0

    def renewed(self, name: str) -> None:
        """An ordered subscription has its next consumer."""
        self._name = name
        self._gaps = GapDetector(0)
        self._broken = False

    def cut_off(self) -> None:
        """The consumer is of no more use, whatever it still sends."""
        self._broken = self._ordered

    def cut(self, last: Message | None) -> None:
        """Of the last messages to be handed on, only those up to `last` were (None: none of them), for want of room."""
        self._last_reply = last.raw_reply if last is not None else self._reply_before
        self._broken = self._ordered

    def receive(self, messages: list[Message]) -> list[Action]:
        """What to do with messages, in the order of their arrival."""
        if self._broken or not messages:
            return []
        return self._deliver(messages) if self._gaps is not None else [Deliver(messages)]

    def receive_status(self, message: Message, status: Status) -> list[Action]:
        """What to do with a status that came behind all messages so far."""
        if self._broken:
            return []
        rule = classify(status.code, status.description)
        if rule.kind is not StatusClass.CONTROL:
            return [Alert(rule.make_error(status.code, status.description, where=self._name))]
        if not self._control:
            return []
        if rule.fetch is not FetchEffect.TIMER:
            return [FlowRequest(message.raw_reply)] if message.raw_reply else []
        return self._heartbeat(message)

    def _deliver(self, messages: list[Message]) -> list[Action]:
        """Hand on what is in order; tell of what is not, or begin anew behind the last good one."""
        assert self._gaps is not None, "without a watch on the numbering everything is in order"
        actions: list[Action] = []
        good = self._gaps.scan(messages)
        while good < len(messages):
            actions += self._good(messages[:good])
            odd = messages[good:]
            problem = self._told(odd[0])
            missing = isinstance(problem, ConsumerSequenceMismatchError)
            if missing and self._ordered:
                self._broken = True
                return [*actions, Reset(problem)]
            actions.append(Alert(problem))
            messages = odd if missing else odd[1:]
            good = self._gaps.scan(messages)
        return [*actions, *self._good(messages)]

    def _good(self, messages: list[Message]) -> list[Action]:
        if not messages:
            return []
        self._reply_before, self._last_reply = self._last_reply, messages[-1].raw_reply
        return [Deliver(messages)]

    def _told(self, odd: Message) -> Error:
        """What is wrong with a message; the numbering goes on with it."""
        assert self._gaps is not None, "without a watch on the numbering nothing is odd"
        try:
            got = parse_ack_subject(odd.reply).consumer_sequence
        except InvalidAckError as problem:
            return InvalidAckError(f"{self._name}: {problem}; the message is no delivery of a consumer and was dropped")
        gap = self._gap(got)
        self._gaps.last = got - 1
        return gap

    def _gap(self, got: int) -> ConsumerSequenceMismatchError:
        assert self._gaps is not None, "without a watch on the numbering there is no gap"
        expected = (self._gaps.last or 0) + 1
        sequence = self.last_sequence
        return ConsumerSequenceMismatchError(
            f"{self._name}: deliveries are missing: expected number {expected}, got {got}; "
            f"the last message before had stream sequence {sequence}",
            expected=expected,
            got=got,
            stream_sequence=sequence,
        )

    def _heartbeat(self, message: Message) -> list[Action]:
        actions: list[Action] = []
        last = message.headers.get(header_names.LAST_CONSUMER, "")
        if self._gaps is not None and last and last.isdecimal() and self._gaps.heartbeat(int(last)):
            gap = self._gap(int(last))
            if self._ordered:
                self._broken = True
                return [Reset(gap)]
            if int(last) >= gap.expected:
                actions.append(Alert(gap))
            self._gaps.last = int(last)
        if stalled := message.headers.get(header_names.CONSUMER_STALLED):
            actions.append(FlowRequest(stalled.encode()))
        return actions
