"""A scripted JetStream: answers of the API, streams that acknowledge, consumers that deliver."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.driver.frames import Pub, header_block, matches
from tests.driver.server import MemoryServer, Session

__all__ = [
    "API",
    "NO_STREAM",
    "SILENCE",
    "Answer",
    "ConsumerScript",
    "JetStreamScript",
    "Pull",
    "StreamScript",
    "refusal",
]

API: Final = "$JS.API."
SILENCE: Final = "silence"
"""Stands for an answer that never comes."""
_TIMESTAMP: Final = 1_767_323_045_000_000_000

Answer = Mapping[str, Any] | str
"""A reply as JSON, a status (`503`), or `SILENCE`."""

Answering = Answer | Callable[[Pub], Answer]


def refusal(code: int, err_code: int, description: str) -> Answer:
    """Return the answer of a server that refuses a request."""
    return {"error": {"code": code, "err_code": err_code, "description": description}}


NO_CONSUMER: Final = refusal(404, 10014, "consumer not found")
NO_STREAM: Final = refusal(404, 10059, "stream not found")


@dataclass
class Pull:
    """One pull of a client."""

    consumer: ConsumerScript
    session: Session
    request: Pub

    @property
    def at(self) -> float:
        """The time at which the server read it."""
        return self.request.at

    @property
    def fields(self) -> dict[str, Any]:
        """The body of the request."""
        return self.request.json

    @property
    def batch(self) -> int:
        """The requested number of messages."""
        batch: int = self.fields["batch"]
        return batch

    @property
    def heard(self) -> bool:
        """Whether the client still listens to its inbox."""
        return any(matches(sub.subject, self.request.reply) for sub in self.session.subs.values())

    def deliver(self, *payloads: bytes, **more: Any) -> int:
        """Send the next messages of the stream; return how many the client may receive."""
        return sum(self.consumer.send(self.session, self.request.reply, payload, **more) for payload in payloads)

    def fill(self, count: int | None = None) -> int:
        """Send the requested number of messages, or `count`. Their payloads are their sequences in the stream."""
        return sum(self.deliver(b"%d" % (self.consumer.stream_sequence + 1)) for _ in range(count or self.batch))

    def status(self, status: str, **headers: str) -> int:
        """Send a status. `Nats_Pending_Messages` stands for `Nats-Pending-Messages`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.deliver(self.request.reply, status=status, headers=named)

    def heartbeat(self) -> int:
        """Send a heartbeat."""
        return self.status("100 Idle Heartbeat")


@dataclass
class ConsumerScript:
    """One consumer: its configuration, its pulls, and its deliveries."""

    js: JetStreamScript
    stream: str
    name: str
    config: dict[str, Any]
    stream_sequence: int = 0
    """The stream sequence of the last delivered message."""
    consumer_sequence: int = 0
    """The number of delivered messages."""
    pulls: list[Pull] = field(default_factory=list)
    deleted: bool = False
    created: str = "2026-01-02T03:04:06Z"

    @property
    def pull(self) -> Pull:
        """The latest pull."""
        return self.pulls[-1]

    @property
    def info(self) -> dict[str, Any]:
        """The consumer info of the server."""
        return {
            "type": "io.nats.jetstream.api.v1.consumer_info_response",
            "stream_name": self.stream,
            "name": self.name,
            "created": self.created,
            "config": self.config,
            "delivered": {"consumer_seq": self.consumer_sequence, "stream_seq": self.stream_sequence},
        }

    def ack_subject(self, delivered: int = 1, pending: int = 0) -> str:
        """The reply subject of the last message."""
        place = f"{delivered}.{self.stream_sequence}.{self.consumer_sequence}.{_TIMESTAMP}.{pending}"
        return f"$JS.ACK.{self.stream}.{self.name}.{place}"

    def send(
        self,
        session: Session,
        inbox: str,
        payload: bytes,
        *,
        subject: str = "",
        headers: Mapping[str, str] | None = None,
        delivered: int = 1,
        pending: int = 0,
        skip: int = 0,
    ) -> int:
        """Deliver the next message to an inbox; `skip` leaves out a number of messages of the stream before it."""
        self.stream_sequence += 1 + skip
        self.consumer_sequence += 1
        header = header_block("", headers) if headers else b""
        reply = self.ack_subject(delivered, pending)
        return session.deliver_raw(subject or f"{self.stream.lower()}.a", payload, reply, header, to=inbox)

    # -- push ----------------------------------------------------------------------------------------------------

    @property
    def deliver_subject(self) -> str:
        """The deliver subject."""
        subject: str = self.config["deliver_subject"]
        return subject

    def push(self, *payloads: bytes, **more: Any) -> int:
        """Push the next messages of the stream."""
        return sum(self.send(self.js.session, self.deliver_subject, payload, **more) for payload in payloads)

    def lose(self, count: int = 1) -> None:
        """Push messages that never arrive."""
        self.stream_sequence += count
        self.consumer_sequence += count

    def heartbeat(self, *, stalled: str = "") -> int:
        """Push a heartbeat."""
        headers = {"Nats-Last-Consumer": str(self.consumer_sequence), "Nats-Last-Stream": str(self.stream_sequence)}
        if stalled:
            headers["Nats-Consumer-Stalled"] = stalled
        return self.js.session.deliver(self.deliver_subject, status="100 Idle Heartbeat", headers=headers)

    def ask_flow(self, reply: str) -> int:
        """Push a flow-control request."""
        return self.js.session.deliver(self.deliver_subject, reply=reply, status="100 FlowControl Request")


class StreamScript:
    """One stream: it keeps published messages, and acknowledges them.

    Attributes
    ----------
    answers
        The reaction to publishes: `ack` acknowledges, `hold` waits for `ack` and `refuse`, a status is sent.
    published
        The publishes, in order.
    created
        When it was created.
    last
        Its last sequence. Deliveries of its consumers move the one that the stream's info has, too.
    """

    def __init__(self, name: str, js: JetStreamScript) -> None:
        self.name = name
        self.created = "2026-01-02T03:04:05Z"
        self._js = js
        self.answers = "ack"
        self.published: list[Pub] = []
        self.last = 0
        self._sessions: list[Session] = []

    @property
    def info(self) -> dict[str, Any]:
        """The stream info of the server."""
        return {
            "type": "io.nats.jetstream.api.v1.stream_info_response",
            "config": {"name": self.name, "subjects": [f"{self.name.lower()}.>"]},
            "created": self.created,
            "state": {"messages": self.last, "first_seq": 1, "last_seq": max([self.last, *self._delivered])},
        }

    @property
    def _delivered(self) -> list[int]:
        consumers = [each for each in self._js.consumers.values() if each.stream == self.name]
        return [each.stream_sequence for each in consumers if each.consumer_sequence]

    def recreate(self, created: str = "2026-01-02T04:00:00Z", last: int = 0) -> None:
        """Delete the stream with its consumers, and create it again with `last` messages."""
        for name, consumer in list(self._js.consumers.items()):
            if consumer.stream == self.name:
                consumer.deleted = True
                del self._js.consumers[name]
        self.created, self.last = created, last

    @property
    def payloads(self) -> list[bytes]:
        """The published payloads."""
        return [pub.payload for pub in self.published]

    def take(self, session: Session, pub: Pub) -> None:
        """Handle a publish."""
        self.published.append(pub)
        self._sessions.append(session)
        if self.answers == "ack":
            self.ack(len(self.published) - 1)
        elif self.answers != "hold":
            session.deliver(pub.reply, status=self.answers)

    def ack(self, position: int = -1, **fields: Any) -> int:
        """Acknowledge the publish at an index of `published`."""
        self.last += 1
        answer = {"stream": self.name, "seq": self.last, **fields}
        return self.answer(json.dumps(answer).encode(), position)

    def refuse(self, position: int = -1, code: int = 503, err_code: int = 10077, description: str = "no room") -> int:
        """Refuse the publish at an index of `published`."""
        return self.answer(json.dumps(refusal(code, err_code, description)).encode(), position)

    def answer(self, payload: bytes, position: int = -1) -> int:
        """Answer the publish at an index of `published`."""
        return self._sessions[position].deliver(self.published[position].reply, payload)


class JetStreamScript:
    """The JetStream of one server.

    Attributes
    ----------
    requests
        Requests to the API, without pulls.
    acks
        Acknowledgements of messages.
    flow
        Answers to flow control.
    consumers, streams
        By name.
    """

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.requests: list[Pub] = []
        self.acks: list[Pub] = []
        self.flow: list[Pub] = []
        self.consumers: dict[str, ConsumerScript] = {}
        self.streams: dict[str, StreamScript] = {}
        self.created: list[ConsumerScript] = []
        self._answers: list[tuple[str, list[Answering]]] = []
        self._names = itertools.count(1)
        server.on(f"{API}>", self._ask)
        server.on("$JS.ACK.>", lambda _, pub: self._acked(pub))
        server.on("$JS.FC.>", lambda _, pub: self.flow.append(pub))

    @property
    def session(self) -> Session:
        """The latest session."""
        return self.server.session

    def asked(self, endpoint: str) -> list[Pub]:
        """Return the requests to a part of the API, such as `CONSUMER.INFO.>`."""
        return [pub for pub in self.requests if matches(API + endpoint, pub.subject)]

    def answer(self, endpoint: str, *answers: Answering) -> None:
        """Set the answers to requests to a part of the API, in order. The last one is repeated."""
        self._answers.append((API + endpoint, list(answers)))

    def stream(self, name: str = "ORDERS") -> StreamScript:
        """Create a stream; it takes subjects below its name in lower case."""
        stream = self.streams[name] = StreamScript(name, self)
        self.server.on(f"{name.lower()}.>", stream.take)
        return stream

    def consumer(self, name: str = "worker", stream: str = "ORDERS", **config: Any) -> ConsumerScript:
        """Create an existing consumer. The fields are those of its configuration, as JSON."""
        fields = {"durable_name": name, "name": name, "ack_policy": "explicit", **config}
        consumer = self.consumers[name] = ConsumerScript(self, stream, name, fields)
        return consumer

    def make(self, pub: Pub) -> Answer:
        """Create the requested consumer."""
        stream = pub.subject.removeprefix(API).split(".")[2]
        config: dict[str, Any] = pub.json["config"]
        name = config.get("name") or config.get("durable_name") or f"made-up-{next(self._names)}"
        config.setdefault("name", name)
        consumer = self.consumers[name] = ConsumerScript(self, stream, name, config)
        consumer.stream_sequence = config.get("opt_start_seq", 1) - 1
        self.created.append(consumer)
        return consumer.info

    # -- the API -------------------------------------------------------------------------------------------------

    def _acked(self, pub: Pub) -> None:
        self.acks.append(pub)
        if pub.reply:
            self.session.deliver(pub.reply)

    def _ask(self, session: Session, pub: Pub) -> None:
        endpoint = pub.subject.removeprefix(API)
        if endpoint.startswith("CONSUMER.MSG.NEXT."):
            self._pull(session, pub, endpoint)
            return
        self.requests.append(pub)
        answer = self._scripted(pub)
        if answer is None:
            answer = self._usual(endpoint, pub)
        if answer == SILENCE:
            return
        if isinstance(answer, str):
            session.deliver(pub.reply, status=answer)
        else:
            session.deliver(pub.reply, json.dumps(answer).encode())

    def _pull(self, session: Session, pub: Pub, endpoint: str) -> None:
        consumer = self.consumers.get(endpoint.rpartition(".")[2])
        answer = self._scripted(pub)
        if consumer is None or consumer.deleted:
            answer = answer or "503"
        else:
            consumer.pulls.append(Pull(consumer, session, pub))
        if isinstance(answer, str) and answer != SILENCE:
            session.deliver(pub.reply, status=answer)

    def _scripted(self, pub: Pub) -> Answer | None:
        for pattern, answers in reversed(self._answers):
            if matches(pattern, pub.subject):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                return answer(pub) if callable(answer) else answer
        return None

    def _usual(self, endpoint: str, pub: Pub) -> Answer:
        kind, action, *names = endpoint.split(".")
        match kind, action, names:
            case "CONSUMER", "CREATE", _:
                return self.make(pub)
            case "CONSUMER", "INFO", [_, name]:
                found = self.consumers.get(name)
                return NO_CONSUMER if found is None or found.deleted else found.info
            case "CONSUMER", "DELETE", [_, name]:
                found = self.consumers.get(name)
                if found is None or found.deleted:
                    return NO_CONSUMER
                found.deleted = True
                return {"success": True}
            case "STREAM", "INFO", [name]:
                return self.streams[name].info if name in self.streams else NO_STREAM
            case "STREAM", "NAMES", _:
                names = sorted(self.streams)
                return {"total": len(names), "offset": 0, "limit": 1024, "streams": names}
        raise AssertionError(f"no answer to {pub.subject}")
