"""The pull engine against a model of the server: the buffer always keeps its limit, and nothing gets stuck."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetspark.engine.pull import CheckConsumer, PullEngine, SendPull, consume_options

MOST = 10

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 30)),
        st.tuples(st.just("deliver"), st.integers(1, 12)),
        st.tuples(st.just("take"), st.integers(1, 12)),
        st.tuples(st.just("expire"), st.just(0)),
        st.tuples(st.just("refuse"), st.sampled_from([409, 503])),
        st.tuples(st.just("elect"), st.just(0)),
        st.tuples(st.just("cut"), st.booleans()),
        st.tuples(st.just("wait"), st.floats(0.1, 20)),
    ),
    max_size=60,
)


class Server:
    """A consumer with its open pulls, which are served in turn, like in nats-server."""

    def __init__(self, engine: PullEngine) -> None:
        self.engine = engine
        self.now = 0.0
        self.stored = 0
        self.buffer = 0  # of the client
        self.taken = 0
        self.pulls: list[list[int]] = []  # token, remaining count
        self.resets = 0  # sessions after which pulls of the previous one may still be served
        engine.start(self.now)
        self.obey()

    def obey(self) -> None:
        for action in self.engine.poll_actions():
            assert not isinstance(action, CheckConsumer)
            if isinstance(action, SendPull):
                assert 1 <= action.request.batch <= MOST
                assert self.buffer + action.request.batch <= MOST
                self.pulls.append([action.token, action.request.batch])

    def step(self, event: str, value: float) -> None:
        getattr(self, event)(value)
        self.obey()
        assert self.buffer <= MOST * (1 + self.resets)

    def publish(self, count: float) -> None:
        self.stored += int(count)

    def deliver(self, count: float) -> None:
        arrived = 0
        while arrived < count and self.stored and self.pulls:
            pull = self.pulls.pop(0)
            pull[1] -= 1
            self.stored -= 1
            arrived += 1
            if pull[1]:
                self.pulls.append(pull)
        if arrived:
            self.buffer += arrived
            self.engine.delivered(self.now, arrived)

    def take(self, count: float) -> None:
        handed = min(int(count), self.buffer)
        self.buffer -= handed
        self.taken += handed
        self.engine.consumed(self.now, handed)

    def expire(self, _: float) -> None:
        if self.pulls:
            token, left = self.pulls.pop(0)
            self.engine.status(self.now, token, 408, "Request Timeout", (left, 0))

    def refuse(self, code: float) -> None:
        """Lose the latest pull, if nothing of it was served."""
        if self.pulls:
            token, _ = self.pulls.pop()
            self.engine.status(self.now, token, int(code), "Exceeded MaxWaiting" if code == 409 else "")
            if code == 503:  # no responders: the other pulls are gone, too
                self.pulls.clear()

    def elect(self, _: float) -> None:
        pulls, self.pulls = self.pulls, []
        for token, _ in pulls:
            self.engine.status(self.now, token, 409, "Leadership Change")

    def cut(self, survives: float) -> None:
        self.engine.disconnected()
        if survives:
            self.resets += bool(self.pulls)
        else:
            self.pulls.clear()
        self.engine.reconnected(self.now)

    def wait(self, seconds: float) -> None:
        """Advance the time, while a living server sends heartbeats."""
        end = self.now + seconds
        while (deadline := self.engine.deadline) is not None and deadline <= end:
            self.now = max(self.now, deadline - 0.01)
            if self.pulls:
                self.engine.status(self.now, self.pulls[-1][0], 100, "Idle Heartbeat")
            self.now = deadline
            self.engine.tick(self.now)
            self.obey()
        self.now = end


@given(STEPS)
def test_all_messages_are_delivered_and_the_buffer_keeps_its_limit(steps: list[tuple[str, float]]) -> None:
    server = Server(PullEngine("S", "C", consume_options(max_messages=MOST)))
    published = 0
    for event, value in steps:
        published += int(value) if event == "publish" else 0
        server.step(event, value)
    for _ in range(200):  # from now on nothing is lost
        if not server.stored and not server.buffer:
            break
        server.step("deliver", MOST)
        server.step("take", MOST)
        server.step("wait", 1.0)
    assert (server.stored, server.buffer, server.taken) == (0, 0, published)
    assert not server.engine.ended
