"""The examples of docs/key-value-and-objects.md run unchanged."""

from __future__ import annotations

from tests.pages import examples, run, run_at

from jetspark.server import NatsServer

COMPLETE, *FUNCTIONS = examples("key-value-and-objects.md")


def test_the_examples_run() -> None:
    with NatsServer() as server:
        printed = run_at(server.url, COMPLETE)
        assert printed == "b'1815' 1\n[<KeyValueEntry users/ada revision 2 PUT 4 bytes>]\n"
        functions = "\n".join(FUNCTIONS)
        lines = run(f"""
import asyncio, jetspark
{functions}
async def main(url):
    async with await jetspark.connect(url) as connection:
        js = connection.jetstream()
        users = await js.key_value("users")
        for function in (keys, many, columns):
            await function(users)
        await copy(users, await js.create_key_value(bucket="others"))
        await follow(users)
asyncio.run(main({server.url!r}))
""").splitlines()
    assert lines[0].startswith("{'ada': b'1815', 'grace': b'1906'} 10")
    assert lines[1] == "2"
    assert lines[-2:] == ["ada b'1815'", "grace b'1906'"]
