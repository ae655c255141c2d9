"""A watch without a server: the end of the initial data, and where the next consumer starts."""

from __future__ import annotations

import pytest
from tests.engine.ordered_play import delivery, info, kinds

from jetspark.engine.ordered import OrderedEngine
from jetspark.engine.ordered_actions import CaughtUp, CreateConsumer, GetConsumerInfo, OrderedAction
from jetspark.engine.watch import InitialDataCatchUp, WatchCursor, WatchFields, WatchOptions
from jetspark.errors import ConfigError, PermissionsViolationError
from jetspark.jetstream import ConsumerConfig, DeliverPolicy


class Watch:
    """A watch whose server the test plays; `created` is the configuration of the last consumer."""

    def __init__(self, pending: int, *, stream_sequence: int = 0, **options: object) -> None:
        fields: WatchFields = options  # type: ignore[assignment]
        self.cursor = WatchCursor(WatchOptions((">",), **fields).config)
        assert self.cursor.stream.failed(PermissionsViolationError())  # the stream is not compared
        self.engine = OrderedEngine(self.cursor, catch_up=InitialDataCatchUp(self.cursor))
        self.engine.start()
        self.created = self._create(self.engine.poll_actions())
        self.first = self.answer(pending, stream_sequence=stream_sequence)

    def _create(self, actions: list[OrderedAction]) -> ConsumerConfig:
        [config] = [action.config for action in actions if isinstance(action, CreateConsumer)]
        return config

    def answer(self, pending: int, *, stream_sequence: int = 0) -> list[OrderedAction]:
        """Answer the creation of the consumer; return what follows the start of the reading."""
        self.engine.created(info(self.cursor.name, pending=pending, stream_sequence=stream_sequence))
        return self.engine.poll_actions()[1:]

    def deliver(self, *places: tuple[int, int, int]) -> list[OrderedAction]:
        """Deliver in one read: consumer sequence, stream sequence, pending."""
        self.engine.accept([delivery(*place) for place in places])
        return self.engine.poll_actions()

    def lose(self) -> None:
        self.engine.reset()
        self.created = self._create(self.engine.poll_actions())


@pytest.mark.conformance("KVS-36")
def test_an_empty_bucket_ends_the_initial_data_first() -> None:
    assert Watch(0).first == [CaughtUp(0)]


@pytest.mark.conformance("KVS-36")
def test_the_initial_data_ends_after_the_last_pending_entry() -> None:
    watch = Watch(3)
    assert watch.deliver((1, 1, 2)) == []
    assert watch.deliver((2, 4, 1), (3, 6, 0)) == [CaughtUp(3)]
    assert watch.deliver((4, 7, 0)) == []


@pytest.mark.conformance("KVS-36")
def test_changes_in_the_same_read_follow_the_end() -> None:
    watch = Watch(2)
    assert watch.deliver((1, 1, 1), (2, 2, 0), (3, 3, 0), (4, 4, 0)) == [CaughtUp(2)]


@pytest.mark.conformance("KVS-36", "KVS-37")
@pytest.mark.parametrize("together", [True, False])
def test_changes_do_not_count_for_entries_that_were_pending(together: bool) -> None:
    """History 1, keys 3, 2, 1; then 9 and 3 are put: 3 is delivered last, and the data ends after it."""
    watch = Watch(3)
    places = [(1, 2, 3), (2, 3, 2), (3, 4, 1), (4, 5, 0)]
    reads = [places] if together else [[place] for place in places]
    found = [action for read in reads for action in watch.deliver(*read)]
    assert found == [CaughtUp(4)]


@pytest.mark.conformance("KVS-36", "KVS-37")
def test_entries_that_were_purged_meanwhile_are_not_awaited() -> None:
    """Keys a, b, c, d; then b and d are purged: two come, and the consumer knows that no more will."""
    watch = Watch(4)
    assert watch.deliver((1, 1, 1)) == []
    assert watch.deliver((2, 3, 0)) == [GetConsumerInfo(watch.cursor.name)]
    watch.engine.info_received(info(watch.cursor.name, pending=0, consumer_sequence=2))
    assert watch.engine.poll_actions() == [CaughtUp(2)]


@pytest.mark.conformance("KVS-36", "KVS-37")
def test_a_false_zero_of_the_server_does_not_end_the_initial_data() -> None:
    watch = Watch(3)
    assert watch.deliver((1, 1, 0)) == [GetConsumerInfo(watch.cursor.name)]
    watch.engine.info_received(info(watch.cursor.name, pending=2, consumer_sequence=1))
    watch.engine.info_received(info(watch.cursor.name, pending=0, consumer_sequence=3))  # two are on their way
    assert watch.engine.poll_actions() == []
    assert watch.deliver((2, 2, 1), (3, 3, 0)) == [CaughtUp(3)]


@pytest.mark.conformance("KVS-36")
def test_silence_before_the_end_asks_the_consumer_each_time() -> None:
    watch = Watch(2)
    for _ in range(2):
        watch.engine.heartbeat(0)
        assert watch.engine.poll_actions() == [GetConsumerInfo(watch.cursor.name)]
        watch.engine.info_received(info(watch.cursor.name, pending=1))
        assert watch.engine.poll_actions() == []
    watch.engine.heartbeat(0)
    watch.engine.info_received(info(watch.cursor.name, pending=0))
    assert watch.engine.poll_actions() == [GetConsumerInfo(watch.cursor.name), CaughtUp(0)]
    watch.engine.heartbeat(0)
    watch.engine.info_received(info(watch.cursor.name, pending=0))
    assert watch.engine.poll_actions() == []


@pytest.mark.conformance("KVS-40")
def test_before_the_end_the_next_consumer_begins_again() -> None:
    watch = Watch(3)
    watch.deliver((1, 5, 2))
    watch.lose()
    assert (watch.created.deliver_policy, watch.created.opt_start_seq) == (DeliverPolicy.LAST_PER_SUBJECT, None)
    assert watch.answer(2) == []  # counted again
    assert watch.deliver((1, 3, 1)) == []
    assert watch.cursor.last_sequence == 5
    assert watch.deliver((2, 9, 0)) == [CaughtUp(3)]


@pytest.mark.conformance("KVS-40")
def test_after_the_end_the_next_consumer_continues_after_the_last_entry() -> None:
    watch = Watch(1)
    watch.deliver((1, 5, 0))
    watch.lose()
    assert (watch.created.deliver_policy, watch.created.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 6)
    assert watch.answer(3) == []  # no second end
    assert watch.deliver((1, 6, 0)) == []


@pytest.mark.conformance("KVS-40")
@pytest.mark.parametrize("options", [{}, {"updates_only": True}])
def test_a_watch_that_has_seen_nothing_continues_where_it_began(options: dict[str, object]) -> None:
    watch = Watch(0, stream_sequence=7, **options)
    watch.lose()
    watch.answer(2, stream_sequence=9)
    watch.lose()
    assert (watch.created.deliver_policy, watch.created.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 8)


@pytest.mark.conformance("KVS-40")
def test_a_history_continues_after_the_last_entry_also_before_the_end() -> None:
    watch = Watch(3, include_history=True)
    assert watch.created.deliver_policy == DeliverPolicy.ALL
    watch.deliver((1, 5, 2))
    watch.lose()
    assert (watch.created.deliver_policy, watch.created.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 6)
    assert watch.answer(2) == []
    assert watch.deliver((1, 6, 1), (2, 7, 0)) == [CaughtUp(3)]


@pytest.mark.conformance("KVS-35", "KVS-39")
def test_the_options_choose_the_policy() -> None:
    assert WatchOptions(("a.*", "b")).config.filter_subjects == ["a.*", "b"]
    assert WatchOptions((">",)).config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT
    assert WatchOptions((">",), updates_only=True).config.deliver_policy == DeliverPolicy.NEW
    assert WatchOptions((">",), meta_only=True).config.headers_only
    resumed = WatchOptions((">",), resume_from=4).config
    assert (resumed.deliver_policy, resumed.opt_start_seq) == (DeliverPolicy.BY_START_SEQUENCE, 4)
    for wrong in (
        WatchFields(updates_only=True, include_history=True),
        WatchFields(updates_only=True, resume_from=1),
        WatchFields(resume_from=0),
    ):
        with pytest.raises(ConfigError):
            WatchOptions((">",), **wrong)


@pytest.mark.conformance("KVS-34")
def test_the_consumers_acknowledge_nothing_and_are_in_memory() -> None:
    config = Watch(0).created
    assert (config.ack_policy, config.mem_storage, config.num_replicas) == ("none", True, 1)
    assert config.name


def test_a_consumer_of_another_watch_ends_nothing() -> None:
    watch = Watch(1)
    watch.engine.info_received(info("other", pending=0))
    assert kinds(watch.engine.poll_actions()) == []
