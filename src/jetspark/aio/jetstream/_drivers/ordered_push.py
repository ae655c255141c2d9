"""Feeds an ordered push subscription: reads from one consumer after the other (ADR-17)."""

from __future__ import annotations

from dataclasses import replace

from jetspark.aio.jetstream._drivers.ordered import OrderedRunner
from jetspark.aio.jetstream._drivers.push import PushDriver
from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.push import Action
from jetspark.engine.subscribe import Subscribe
from jetspark.jetstream.config import ConsumerConfig
from jetspark.jetstream.errors import Error, InvalidAckError
from jetspark.jetstream.info import ConsumerInfo
from jetspark.wire.events import ErrorOccurred
from jetspark.wire.messages import Message

__all__ = ["OrderedPushDriver"]


class OrderedPushDriver(PushDriver):
    """A feed that resumes after the last good message: after a gap, silence, a lost session or a local drop."""

    @property
    def resetting(self) -> bool:
        """Whether it is between two consumers."""
        return self._ordered.resetting

    def _set_engine(self) -> None:
        super()._set_engine()
        cursor = self.binding.ordered
        assert cursor is not None, "an ordered subscription has a cursor"
        attempts = self._options.max_reset_attempts
        self._ordered = OrderedEngine(cursor, max_reset_attempts=attempts, delay_after_idle=True)
        self._runner = OrderedRunner(self._js, self.binding.stream, self._ordered, self)
        self._ordered.start(online=self._client.outbound.online, exists=True)
        self._runner.perform_actions()

    def close(self, error: Error | None = None) -> None:
        """End. A closed connection is an error: the reader may take a quiet end for the end of the stream."""
        super().close(error or self._client.outbound.closed_error)

    def _stop_monitoring(self) -> None:
        super()._stop_monitoring()
        self._ordered.stop(delete=False)  # the end of the subscription deletes the consumer
        self._runner.perform_actions()

    # -- receiving -----------------------------------------------------------------------------------------------

    def _on_status(self, message: Message) -> bool:
        if not super()._on_status(message):
            return False
        self._runner.heartbeat(message)
        return True

    def _perform(self, action: Action) -> None:
        if self._ordered.reading:  # otherwise the status is of a former consumer
            super()._perform(action)

    def _deliver(self, messages: list[Message], size: int | None) -> None:
        """Give the user the messages that are in order."""
        deliveries = [message for message in messages if message.raw_reply.startswith(b"$JS.ACK.")]
        if len(deliveries) < len(messages):
            error = InvalidAckError(f"{self._name}: a message was dropped, because no consumer delivered it")
            self._connection.emit(ErrorOccurred(error))
        good = self._ordered.accept(deliveries, self._loop.time()) if deliveries else 0
        if good:
            super()._deliver(deliveries[:good], size if good == len(messages) else None)
        self._runner.perform_actions()

    def _deliver_until_full(self, messages: list[Message]) -> None:
        """Give the user the messages that there is room for. The rest is read again when there is more room (R43)."""
        sub = self.sub
        if sub.overflow != "drop":
            super()._deliver_until_full(messages)
            return
        for message in messages:
            sub.received += 1
            if sub.full:
                self._client.on_subscription_full(sub, "the rest is read again when the program has read some")
                sub.dropped += 1
                self._ordered.suspend(message)
                # Another thread may have taken all before `notify_on_take` was set.
                self._loop.call_soon(self.on_consumed)
                return
            sub.pending.append(message)
            sub.received_bytes += len(message.raw_header) + len(message.payload)

    def _on_below_limit(self) -> None:
        if self._online:
            self._ordered.resume()
            self._runner.perform_actions()

    # -- silence and loss ----------------------------------------------------------------------------------------

    def fail(self, error: Error, subject: str | None = None) -> None:
        """Handle the end of the session; silence is expected then."""
        super().fail(error, subject)
        if subject is None and self._client.closed:  # between two consumers, no subscription of the server ends it
            self.close()
            self.sub.discard_pending()
        elif subject is None:
            self._ordered.suspend()
            self._runner.perform_actions()

    def on_session_restored(self) -> None:
        """Create the next consumer: messages sent while offline are lost, and after a restart the consumer is, too."""
        self._online = True
        if not self.sub.over_limit:
            self._on_below_limit()

    def _alarm(self, seconds: float) -> None:  # noqa: ARG002 (no report: the reset repairs it)
        self._connection.server_check.suspect()
        self._ordered.reset(self._loop.time())
        self._runner.perform_actions()

    # -- called by the runner ------------------------------------------------------------------------------------

    def prepare(self, config: ConsumerConfig) -> ConsumerConfig:
        """Subscribe to a new inbox, so that late messages of former consumers are not mistaken for new ones."""
        inbox = self._client.new_inbox()
        self._subscribe_inner(Subscribe(inbox, ""))
        return config.replace(deliver_subject=inbox)

    def start_reading(self, info: ConsumerInfo) -> None:
        """Pass on the messages of this consumer."""
        pending = info.num_pending + info.delivered.consumer_sequence
        self.binding = replace(self.binding, consumer=info.name, pending=pending, config=info.config)
        self._engine.name = self._name
        self._start_receiving()

    def stop_reading(self) -> None:
        """Unsubscribe from the inbox of the former consumer."""
        self._unsubscribe_inner()
        self._flow_control.clear()
        self.flow_reply_at = None
        self._heartbeat_timer.pause()

    def handle_warning(self, error: Error) -> None:
        """Ignore the warning: the next try repairs it."""

    def handle_end(self, error: Error | None) -> None:
        """Report the error that allows no further consumer."""
        if error is not None:
            self._connection.emit(ErrorOccurred(error))
            self.close(error)
