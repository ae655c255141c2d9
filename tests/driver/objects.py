"""A scripted object store: it keeps chunks and descriptions as a server does, and answers late or never if asked to."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from tests.driver.frames import Pub, matches
from tests.driver.jetstream import SILENCE, Answer, JetStreamScript, refusal
from tests.driver.server import MemoryServer, Session
from tests.driver.world import World

from jetspark.aio.jetstream import ObjectStore

__all__ = ["StoreScript"]

TIME: Final = "2026-01-02T03:04:05Z"
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"


class StoreScript:
    """The bucket `B` of one server.

    Attributes
    ----------
    messages
        Sequence, subject and payload of each stored message.
    silent
        Patterns of subjects whose publishes are stored, and not acknowledged.
    lost
        Patterns of subjects whose publishes get lost.
    refused
        Answers to publishes by a pattern of their subjects.
    held
        Publishes that wait for `release`; None acknowledges at once.
    purged
        Filters of the purges.
    on_purge, on_get
        Answer purges and reads of descriptions.
    """

    def __init__(self, server: MemoryServer, script: JetStreamScript) -> None:
        self.messages: list[tuple[int, str, bytes]] = []
        self.published: list[Pub] = []
        self.silent: list[str] = []
        self.lost: list[str] = []
        self.refused: dict[str, Answer] = {}
        self.held: list[tuple[Session, Pub]] | None = None
        self.purged: list[str] = []
        self.last = 0
        server.on("$O.B.>", self._take)
        config = {"name": "OBJ_B", "subjects": ["$O.B.C.>", "$O.B.M.>"]}
        script.answer("STREAM.INFO.OBJ_B", {"config": config, "created": TIME, "state": {"messages": 0}})
        self.on_purge: Callable[[Pub], Any] = self._purge
        self.on_get: Callable[[Pub], Any] = self._get
        script.answer("STREAM.PURGE.OBJ_B", lambda pub: self.on_purge(pub))
        script.answer("STREAM.MSG.GET.OBJ_B", lambda pub: self.on_get(pub))

    async def open(self, world: World) -> ObjectStore:
        """Return the handle of the bucket, with a timeout of 2 s."""
        return await (await world.connect()).jetstream(timeout=2.0).object_store("B")

    def release(self) -> None:
        """Answer the publishes that were held, and hold no more."""
        held, self.held = self.held or [], None
        for session, pub in held:
            self._answer(session, pub)

    @property
    def chunks(self) -> dict[str, list[bytes]]:
        """The stored chunks by the id of the content."""
        found: dict[str, list[bytes]] = {}
        for _, subject, payload in self.messages:
            if subject.startswith("$O.B.C."):
                found.setdefault(subject.removeprefix("$O.B.C."), []).append(payload)
        return found

    def meta(self, name: str = "a") -> dict[str, Any] | None:
        """The description of an object."""
        subject = f"$O.B.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
        found = [payload for _, each, payload in self.messages if each == subject]
        return json.loads(found[-1]) if found else None

    def content(self, name: str = "a") -> bytes | None:
        """The content that the description of an object names; it must be complete."""
        meta = self.meta(name)
        if meta is None or meta.get("deleted"):
            return None
        chunks = self.chunks.get(meta["nuid"], [])
        assert len(chunks) == meta["chunks"]
        assert sum(map(len, chunks)) == meta["size"]
        return b"".join(chunks)

    def _take(self, session: Session, pub: Pub) -> None:
        self.published.append(pub)
        if self.held is not None:
            self.held.append((session, pub))
        else:
            self._answer(session, pub)

    def _answer(self, session: Session, pub: Pub) -> None:
        if any(matches(pattern, pub.subject) for pattern in self.lost):
            return
        answer = next((each for pattern, each in self.refused.items() if matches(pattern, pub.subject)), None)
        if answer is None:
            answer = self._store(pub)
        if any(matches(pattern, pub.subject) for pattern in self.silent) or answer == SILENCE:
            return
        if isinstance(answer, str):
            session.deliver(pub.reply, status=answer)
        else:
            session.deliver(pub.reply, json.dumps(answer).encode())

    def _store(self, pub: Pub) -> Answer:
        expected = pub.headers.get(_EXPECTED)
        newest = max((sequence for sequence, subject, _ in self.messages if subject == pub.subject), default=0)
        if expected is not None and int(expected) != newest:
            return refusal(400, 10071, f"wrong last sequence: {newest}")
        if pub.headers.get("Nats-Rollup") == "sub":
            self.messages = [each for each in self.messages if each[1] != pub.subject]
        self.last += 1
        self.messages.append((self.last, pub.subject, pub.payload))
        return {"stream": "OBJ_B", "seq": self.last}

    def _purge(self, pub: Pub) -> Answer:
        pattern = pub.json["filter"]
        self.purged.append(pattern)
        before = pub.json.get("seq") or self.last + 1
        kept = [each for each in self.messages if not matches(pattern, each[1]) or each[0] >= before]
        count, self.messages = len(self.messages) - len(kept), kept
        return {"success": True, "purged": count}

    def _get(self, pub: Pub) -> Answer:
        wanted = pub.json["last_by_subj"]
        for sequence, subject, payload in reversed(self.messages):
            if subject == wanted:
                data = base64.b64encode(payload).decode()
                return {"message": {"subject": subject, "seq": sequence, "time": TIME, "data": data}}
        return refusal(404, 10037, "no message found")


@pytest.fixture
def bucket(server: MemoryServer, script: JetStreamScript) -> StoreScript:
    """The scripted bucket."""
    return StoreScript(server, script)
