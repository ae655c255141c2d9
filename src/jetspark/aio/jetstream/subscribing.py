"""Subscriptions in the classic style (ADR-15): push, queue, ordered, pull."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from jetspark.aio.jetstream._drivers.ordered_push import OrderedPushDriver
from jetspark.aio.jetstream._drivers.push import PushDriver
from jetspark.aio.jetstream._drivers.push_options import PushDriverOptions
from jetspark.aio.jetstream._drivers.workflow import run_in_background, run_workflow
from jetspark.aio.jetstream.api import JetStreamAPI
from jetspark.aio.jetstream.pull_subscription import PullSubscription, PullSubscriptionCore
from jetspark.aio.jetstream.push_subscription import PushCallback, PushSubscription, PushSubscriptionCore
from jetspark.engine.ordered_stream import OnStreamRecreated
from jetspark.engine.push import ALARM_FACTOR
from jetspark.engine.subscribe import Binding, SubscribeOptions, merge_config, subscribe
from jetspark.jetstream.config import ConsumerConfig, DeliverPolicy
from jetspark.jetstream.errors import ConfigError
from jetspark.jetstream.names import new_name
from jetspark.wire.argument_types import checks_arguments
from jetspark.wire.subscriptions import Overflow

__all__ = ["Subscribing"]


@checks_arguments()
class Subscribing(JetStreamAPI):
    """The subscribing calls of a context."""

    async def subscribe(
        self,
        subject: str = "",
        queue: str = "",
        *,
        callback: PushCallback | None = None,
        durable: str | None = None,
        stream: str | None = None,
        config: ConsumerConfig | None = None,
        manual_ack: bool = False,
        ordered_consumer: bool = False,
        idle_heartbeat: float | timedelta | None = None,
        flow_control: bool | None = None,
        deliver_policy: DeliverPolicy | None = None,
        headers_only: bool | None = None,
        inactive_threshold: float | timedelta | None = None,
        pending_msgs_limit: int | None = None,
        pending_bytes_limit: int | None = None,
        overflow: Overflow = "drop",
        heartbeat_alarm_factor: float = ALARM_FACTOR,
        manage_status: bool = True,
        skip_consumer_lookup: bool = False,
        max_reset_attempts: int | None = None,
        on_stream_recreated: OnStreamRecreated = "error",
    ) -> PushSubscription:
        """Subscribe to a push consumer: the durable one of that name, or a new one (ADR-15).

        Parameters
        ----------
        subject
            Subject to receive. It selects the stream, unless `stream` is given, and is the filter of a new consumer.
        queue
            Queue group: each message goes to one of its members. Without `durable` it is also the durable name.
        callback
            Called with each message, one after the other. Without it, iterate the subscription or call `next_msg`.
        durable
            Name of a consumer that outlives the subscription. Without it, and without a queue, the consumer is new; the
            server deletes it after `inactive_threshold` (5 s) without a subscriber.
        stream
            Name of the stream.
        config
            Configuration of a new consumer. Its fields must agree with a consumer that exists.
        manual_ack
            Leave acknowledging to `callback`. Otherwise a message is acknowledged when `callback` returns, if it has
            not been acknowledged yet; if `callback` raises, the message is not acknowledged.
        ordered_consumer
            Every message once and in order, without acknowledgement. After a gap, silence or a lost session the
            subscription creates its next consumer, which starts after the last good message (ADR-17).
        idle_heartbeat, inactive_threshold
            Seconds or a `timedelta`; as in the configuration.
        flow_control, deliver_policy, headers_only
            As in the configuration.
        pending_msgs_limit, pending_bytes_limit
            Limits of the waiting messages; 0 or less means no limit. Default: the connection's option for messages, or
            `max_ack_pending` of the consumer if that is more, and 256 MiB.
        overflow
            When a limit is reached: `drop` drops new messages and reports `SlowConsumer`; the server delivers them
            again unless the ack policy is none. `pause` stops reading from the server for a while. An ordered
            subscription loses nothing either way.
        heartbeat_alarm_factor
            Heartbeat intervals of silence after which an event reports `MissedHeartbeatError`, again after each such
            period.
        manage_status
            False returns heartbeats, flow control requests and all other statuses as messages (`Msg.status`); the user
            must answer them. Then gaps and silence are not watched.
        skip_consumer_lookup
            Do not look up the consumer first: for users without the permission.
        max_reset_attempts
            Most tries in a row to create the next consumer of an ordered subscription; None for no limit.
        on_stream_recreated
            For an ordered subscription whose stream was deleted and created again, or lost messages that were read:
            `error` ends it with StreamRecreatedError, `restart` reads the present stream from its beginning. The event
            `StreamRecreated` reports either.

        Raises
        ------
        ConfigError, BadNameError, BadSubjectError
            The options are not valid. Nothing was sent.
        NoMatchingStreamError
            No stream, or more than one, stores the subject.
        BindingError
            The consumer exists and is bound, or it differs from the options; the subclass says how.
        APIError
            The server refuses to create the consumer.
        """
        if ordered_consumer and not manage_status:
            raise ConfigError("an ordered subscription lives by its statuses; it cannot hand them over")
        feeding = PushDriverOptions(
            pending_msgs_limit=pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit,
            overflow=overflow,
            manage_status=manage_status,
            alarm_factor=heartbeat_alarm_factor,
            max_reset_attempts=max_reset_attempts,
        )
        chosen = merge_config(
            config,
            idle_heartbeat=_duration(idle_heartbeat),
            flow_control=flow_control,
            deliver_policy=deliver_policy,
            headers_only=headers_only,
            inactive_threshold=_duration(inactive_threshold),
        )
        options = SubscribeOptions(
            subject=subject,
            queue=queue,
            durable=durable,
            stream=stream,
            ordered=ordered_consumer,
            on_stream_recreated=on_stream_recreated,
            skip_lookup=skip_consumer_lookup,
            config=chosen,
        )
        return await self._push(options, feeding, callback, manual_ack)

    async def subscribe_bind(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        consumer: str | None = None,
        *,
        subject: str = "",
        queue: str = "",
        callback: PushCallback | None = None,
        manual_ack: bool = False,
        pending_msgs_limit: int | None = None,
        pending_bytes_limit: int | None = None,
        overflow: Overflow = "drop",
        heartbeat_alarm_factor: float = ALARM_FACTOR,
        manage_status: bool = True,
        skip_consumer_lookup: bool = False,
    ) -> PushSubscription:
        """Subscribe to a push consumer that exists; it is never created, changed or deleted (BND-01).

        Parameters
        ----------
        stream, consumer
            Names of the stream and of the consumer; the consumer's name may be in `config` instead.
        config
            Its fields must agree with the consumer. `ConsumerInfo.config` always does.
        subject
            Must be the consumer's filter, if given.
        skip_consumer_lookup
            Do not look up the consumer: then `config` must have its deliver subject.

        Raises
        ------
        ConfigError, BadNameError
            The options are not valid. Nothing was sent.
        ConsumerNotFoundError, StreamNotFoundError
            There is no such consumer (10014) or no such stream (10059).
        BindingError
            The consumer is bound, or it differs from the options; the subclass says how.
        """
        feeding = PushDriverOptions(
            pending_msgs_limit=pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit,
            overflow=overflow,
            manage_status=manage_status,
            alarm_factor=heartbeat_alarm_factor,
        )
        options = SubscribeOptions(
            subject=subject,
            queue=queue,
            stream=stream,
            consumer=_named(consumer, config),
            skip_lookup=skip_consumer_lookup,
            config=config or ConsumerConfig(),
        )
        return await self._push(options, feeding, callback, manual_ack)

    async def pull_subscribe(
        self,
        subject: str = "",
        durable: str | None = None,
        *,
        stream: str | None = None,
        config: ConsumerConfig | None = None,
        skip_consumer_lookup: bool = False,
    ) -> PullSubscription:
        """Pull from the durable consumer of that name, or from a new one (ADR-13).

        Parameters
        ----------
        subject
            Subject to receive. It selects the stream, unless `stream` is given, and is the filter of a new consumer.
        durable
            Name of a consumer that outlives the subscription. Without it the consumer is new; the server deletes it
            after `inactive_threshold` (5 s) without a pull.
        stream
            Name of the stream.
        config
            Configuration of a new consumer. Its fields must agree with a consumer that exists.
        skip_consumer_lookup
            Do not look up the consumer first.

        Raises
        ------
        ConfigError, BadNameError, BadSubjectError
            The options are not valid. Nothing was sent.
        NoMatchingStreamError
            No stream, or more than one, stores the subject.
        BindingError
            The consumer exists and differs from the options; the subclass says how.
        APIError
            The server refuses to create the consumer.
        """
        return await self._pull(
            SubscribeOptions(
                subject=subject,
                durable=durable,
                stream=stream,
                pull=True,
                skip_lookup=skip_consumer_lookup,
                config=config or ConsumerConfig(),
            )
        )

    async def pull_subscribe_bind(
        self,
        consumer: str | None = None,
        stream: str | None = None,
        *,
        subject: str = "",
        config: ConsumerConfig | None = None,
        skip_consumer_lookup: bool = False,
    ) -> PullSubscription:
        """Pull from a consumer that exists; it is never created, changed or deleted.

        If nobody answers the look-up of the consumer, it continues without it (BND-03). That happens in an account that
        imports only the pull subjects.

        Parameters
        ----------
        consumer, stream
            Names of the consumer and of its stream.
        subject
            Must be the consumer's filter, if given.
        config
            Its fields must agree with the consumer.
        skip_consumer_lookup
            Do not look up the consumer.

        Raises
        ------
        ConfigError, BadNameError
            The options are not valid. Nothing was sent.
        ConsumerNotFoundError, StreamNotFoundError
            There is no such consumer (10014) or no such stream (10059).
        BindingError
            The consumer differs from the options; the subclass says how.
        """
        return await self._pull(
            SubscribeOptions(
                subject=subject,
                stream=stream,
                consumer=_named(consumer, config),
                pull=True,
                skip_lookup=skip_consumer_lookup,
                config=config or ConsumerConfig(),
            )
        )

    async def _push(
        self,
        options: SubscribeOptions,
        driver_options: PushDriverOptions,
        callback: PushCallback | None,
        manual_ack: bool,
    ) -> PushSubscription:
        driver = (OrderedPushDriver if options.ordered else PushDriver)(self._core, driver_options)
        await driver.open(subscribe(options, self._core.connection.new_inbox, new_name))
        auto_ack = not manual_ack and driver.binding.acknowledged
        return PushSubscription(self._core, PushSubscriptionCore(self._core, driver, callback, auto_ack=auto_ack))

    async def _pull(self, options: SubscribeOptions) -> PullSubscription:
        workflow = subscribe(options, self._core.connection.new_inbox, new_name)
        binding: Binding = await run_workflow(
            workflow, self.request, run_in_background=partial(run_in_background, self._core.connection)
        )
        return PullSubscription(self._core, PullSubscriptionCore(self._core, binding))


def _named(consumer: str | None, config: ConsumerConfig | None) -> str:
    """Return the name to bind to, which may be in the configuration."""
    name = consumer or (config and (config.name or config.durable_name))
    if not name:
        raise ConfigError("binding needs the name of a consumer")
    return name


def _duration(seconds: float | timedelta | None) -> timedelta | None:
    return timedelta(seconds=seconds) if isinstance(seconds, (int, float)) else seconds
