"""Engine of push subscriptions: handles received messages in batches, and statuses.

It checks messages when they arrive, not when the program takes them. So it detects a gap and replaces an ordered
consumer even if nobody reads, and a slow reader does not look like a gap. The check reads only a short slice of each
ack subject. Statuses are rare; they are handled one by one, in order with the messages.

An ordered subscription checks its messages itself (`jetspark.engine.ordered`); this engine handles its statuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jetspark.engine.push.gaps import GapDetector
from jetspark.jetstream import header_names
from jetspark.jetstream.ack import parse_ack_subject
from jetspark.jetstream.errors import ConsumerSequenceMismatchError, Error, InvalidAckError
from jetspark.jetstream.status import FetchEffect, StatusSeverity, classify
from jetspark.wire.headers import Status
from jetspark.wire.messages import Message
from jetspark.wire.untrusted import parse_number

__all__ = ["Action", "Deliver", "FlowControlRequest", "PushEngine", "ReportError"]


@dataclass(frozen=True, slots=True)
class Deliver:
    """Pass messages to the program."""

    messages: list[Message]
    """In order."""


@dataclass(frozen=True, slots=True)
class FlowControlRequest:
    """A flow control request. It follows all messages of earlier `Deliver` actions."""

    subject: bytes
    """Subject of the answer."""


@dataclass(frozen=True, slots=True)
class ReportError:
    """Report an error to the error callback."""

    error: Error
    """The error."""


Action: TypeAlias = Deliver | FlowControlRequest | ReportError


class PushEngine:
    """The engine; see the module.

    Parameters
    ----------
    name
        Name of the consumer in error messages.
    gaps
        Checks the consumer sequences; None for ordered subscriptions, which do that themselves, and for queue groups,
        whose members each get only some of them (GAP-05).
    control
        Whether to handle heartbeats and flow control; False for queue groups, where they reach a random member.
    """

    def __init__(self, name: str, *, gaps: GapDetector | None = None, control: bool = True) -> None:
        self.name = name
        self._gaps = gaps
        self._control = control
        self._last_reply = b""

    def receive(self, messages: list[Message]) -> list[Action]:
        """Handle messages in the order of their arrival; return the actions."""
        if not messages:
            return []
        return self._deliver(messages) if self._gaps is not None else [Deliver(messages)]

    def receive_status(self, message: Message, status: Status) -> list[Action]:
        """Handle a status that came after all messages so far; return the actions."""
        rule = classify(status.code, status.description)
        if rule.severity is not StatusSeverity.CONTROL:
            return [ReportError(rule.make_error(status.code, status.description, where=self.name))]
        if not self._control:
            return []
        if rule.fetch is not FetchEffect.TIMER:
            return [FlowControlRequest(message.raw_reply)] if message.raw_reply else []
        return self._heartbeat(message)

    def _deliver(self, messages: list[Message]) -> list[Action]:
        """Pass on messages; report gaps and messages that are no deliveries."""
        assert self._gaps is not None, "called only if consumer sequences are checked"
        actions: list[Action] = []
        good = self._gaps.scan(messages)
        while good < len(messages):
            actions += self._good(messages[:good])
            odd = messages[good:]
            problem = self._order_error(odd[0])
            actions.append(ReportError(problem))
            messages = odd if isinstance(problem, ConsumerSequenceMismatchError) else odd[1:]
            good = self._gaps.scan(messages)
        return [*actions, *self._good(messages)]

    def _good(self, messages: list[Message]) -> list[Action]:
        if not messages:
            return []
        self._last_reply = messages[-1].raw_reply
        return [Deliver(messages)]

    def _order_error(self, odd: Message) -> Error:
        """Return the error of a message that is not in order; after a gap, expect the numbers that follow it."""
        assert self._gaps is not None, "called only if consumer sequences are checked"
        try:
            got = parse_ack_subject(odd.reply).consumer_sequence
        except InvalidAckError as problem:
            return InvalidAckError(f"{self.name}: a message was dropped, because no consumer delivered it: {problem}")
        gap = self._gap(got)
        self._gaps.last = got - 1
        return gap

    def _gap(self, got: int) -> ConsumerSequenceMismatchError:
        assert self._gaps is not None, "called only if consumer sequences are checked"
        expected = (self._gaps.last or 0) + 1
        sequence = parse_ack_subject(self._last_reply.decode()).stream_sequence if self._last_reply else 0
        return ConsumerSequenceMismatchError(
            f"{self.name}: messages are missing: expected consumer sequence {expected}, got {got}; "
            f"the last message before the gap has stream sequence {sequence}",
            expected=expected,
            got=got,
            stream_sequence=sequence,
        )

    def _heartbeat(self, message: Message) -> list[Action]:
        actions: list[Action] = []
        last = parse_number(message.headers.get(header_names.LAST_CONSUMER))
        if self._gaps is not None and last is not None and self._gaps.heartbeat(last):
            gap = self._gap(last)
            if last >= gap.expected:
                actions.append(ReportError(gap))
            self._gaps.last = last
        if stalled := message.headers.get(header_names.CONSUMER_STALLED):
            actions.append(FlowControlRequest(stalled.encode("utf-8", "surrogateescape")))
        return actions
