"""The same thing has the same name in every public signature."""

from __future__ import annotations

import re

from tests.pages import DOCS

OTHER_WORDS = {
    "expires": "timeout",
    "cb": "callback",
    "seq": "sequence",
    "up_to_seq": "up_to_sequence",
    "message_id": "msg_id",
    "heartbeat": "idle_heartbeat",
    "first_seq": "first_sequence",
    "last_seq": "last_sequence",
}
SERVER_NAMES = ("class PullRequest", "class StreamConfig", "class StreamConfigFields")
"""Classes whose fields have the names that the server gives them."""


def test_signatures_use_one_word_for_one_thing() -> None:
    wrong: list[str] = []
    title = ""
    for line in (DOCS / "api.md").read_text().splitlines():
        if line.startswith("`class "):
            title = line.strip("`")
        if title.startswith(SERVER_NAMES):
            continue
        signature = line.partition("`: ")[0]
        words = set(re.findall(r"[(`, ](\w+): ", signature + ": "))
        wrong += [f"{word} is called {OTHER_WORDS[word]}: {line}" for word in words & OTHER_WORDS.keys()]
    assert wrong == []
