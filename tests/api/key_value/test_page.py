"""The examples of docs/key-value-and-objects.md run unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pages import examples, run, run_at

from jetspark.server import NatsServer

COMPLETE, *FUNCTIONS = examples("key-value-and-objects.md")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.png").write_bytes(b"content")
    with NatsServer() as server:
        assert run_at(server.url, COMPLETE) == "b'1815' b'...'\n"
        functions = "\n".join(FUNCTIONS)
        lines = run(f"""
import asyncio, jetspark
{functions}
async def main(url):
    async with await jetspark.connect(url) as connection:
        js = connection.jetstream()
        users = await js.key_value("users")
        for function in (keys, many, columns, follow):
            await function(users)
        await store(js)
        images = await js.object_store("images")
        for function in (put, get, list_and_watch):
            await function(images)
        await change(images, images)
asyncio.run(main({server.url!r}))
""").splitlines()
    assert lines[0].startswith("{'ada': b'1815', 'grace': b'1906'} 10")
    assert lines[1] == "2"
    begin = lines.index("ada b'1815'")
    assert lines[begin + 1] == "grace b'1906'"
    objects = lines[begin + 2 :]
    assert objects[0].startswith("19 1 SHA-256=")
    assert objects[1:6] == ["7 7", "b'content'", "4000 b'partpartpa'", "3990", "b'rtpartpa'"]
    assert (tmp_path / "copy").read_bytes() == b"part" * 1000
    listed, watched = objects[6:13], objects[13:]
    assert [line.split()[0] for line in listed] == ["cat.png", "a", "b", "b.png", "c", "d", "e"]
    assert [line.split()[0] for line in watched] == [line.split()[0] for line in listed]
