"""The examples of object stores in docs/key-value-and-objects.md run unchanged."""

from __future__ import annotations

from tests.pages import examples, run

from jetspark.server import NatsServer

_, *FUNCTIONS = examples("key-value-and-objects.md")


def test_the_examples_of_objects_run() -> None:
    with NatsServer() as server:
        functions = "\n".join(FUNCTIONS)
        lines = run(f"""
import asyncio, jetspark, os, tempfile
{functions}
async def main(url):
    async with await jetspark.connect(url) as connection:
        js = connection.jetstream()
        await store(js)
        images = await js.object_store("images")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            Path("b.png").write_bytes(b"content")
            await put(images)
            os.chdir("/")
        await change(images, images)
asyncio.run(main({server.url!r}))
""").splitlines()
    assert lines[0].startswith("19 1 SHA-256=")
    assert lines[1:] == ["7 7"]
