"""The blocking JetStream front is generated from its source, and code without a translation is refused."""

from __future__ import annotations

import ast

import pytest
from tools.make_sync import BY_HAND, HANDWRITTEN, INTERNAL, make, stale, tidy
from tools.sync_facade import convert
from tools.sync_source import ByHand, Module, Package, translate

HEAD = '"""A module."""\n'


def translated(source: str, by_hand: dict[str, ByHand] | None = None) -> str:
    module = Module("sample", ast.parse(HEAD + source))
    return translate(module, Package({"sample": module}, INTERNAL, HANDWRITTEN, by_hand or BY_HAND))


def test_the_package_matches_its_source() -> None:
    made, refused = make()
    assert refused == []
    assert [path.name for path in stale(made)] == [], "run `make sync`"


def test_calls_run_on_the_loop_and_wrap_their_results() -> None:
    made = tidy(
        translated('''
__all__ = ["One", "Other"]
class Other:
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, kind, error, trace) -> None: ...
class One:
    kept: int
    """Kept."""
    @property
    def size(self) -> int:
        """Size."""
    async def get(self, name: str, *, timeout: float | None = None, **more: object) -> Other | None:
        """Get: `await one.get()`."""
    async def get_all(self) -> list[Other]: ...
    async def each(self) -> AsyncIterator[Other]:
        yield
    def made(self, callback: Callable[[int], Awaitable[None] | None] | None = None) -> Other: ...
    async def _hidden(self) -> None: ...
''')
    )
    for line in (
        "class One(LoopProxy):",
        "def kept(self) -> int:",
        "return self._inner.size",
        '"""Get: `one.get()`."""',
        "def get(self, name: str, *, timeout: float | None = None, **more: object) -> Other | None:",
        "if (found := self._call(self._inner.get(name, timeout=timeout, **more))) is None",
        "return [Other(self._connection, each) for each in self._call(self._inner.get_all())]",
        "def each(self) -> Iterator[Other]:",
        "lambda each: Other(self._connection, each)",
        "def made(self, callback: Callable[[int], None] | None = None) -> Other:",
        "None if callback is None else self._connection.in_callback_thread(callback)",
        "def __enter__(self) -> Self:",
    ):
        assert line in made
    assert "_hidden" not in made
    compile(made, "sample", "exec")


def test_an_asynchronous_iterator_becomes_a_blocking_iterator() -> None:
    made = translated("""
__all__ = ["One"]
class One:
    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Msg: ...
""")
    assert "def __iter__(self) -> Self:\n        return self" in made
    assert "return cast('Msg', self._call(self._inner.__anext__()))" in made
    assert "except StopAsyncIteration:" in made


def test_handwritten_methods_keep_signature_and_docstring() -> None:
    source = """
__all__ = ["One"]
class One:
    async def slow(self) -> None: ...
    async def fast(self, size: int, *, timeout: float = 1.0) -> int:
        '''Do it.'''
    async def inherited(self) -> None: ...
"""
    by_hand = ByHand("jetspark.sync.fast:Fast", frozenset({"fast"}), left_out=frozenset({"inherited"}))
    made = tidy(translated(source, {"One": by_hand}))
    assert "from jetspark.sync.fast import Fast" in made
    assert "class One(Fast, LoopProxy):" in made
    assert "self._call(self._inner.slow())" in made
    assert "def fast(self, size: int, *, timeout: float = 1.0) -> int:" in made
    assert '"""Do it."""' in made
    assert "return self._fast(size, timeout=timeout)" in made
    assert "inherited" not in made


def test_a_facade_loses_its_awaits() -> None:
    source = '''"""A connection of the asyncio API, with callbacks in a task of its own."""

from jetspark.aio._interfaces import HasCore
from jetspark.aio.core import ConnectionCore


class Connection(HasCore[ConnectionCore]):
    """Opened by `await jetspark.connect`."""

    async def __aenter__(self) -> Self:
        return self

    async def flush(self, timeout: float) -> None:  # noqa: ASYNC109 (the deadline is part of the call)
        await self._core.flush(timeout)
'''
    made = convert(source, "sample")
    assert "Made by `tools/make_sync.py` from `jetspark.aio.sample`" in made
    assert "of the blocking front, with callbacks in a thread of its own." in made
    assert "from jetspark.sync.core import ConnectionCore" in made
    assert "Opened by `jetspark.sync.connect`." in made
    assert "def __enter__(self)" in made
    assert "    def flush(self, timeout: float) -> None:\n        self._core.flush(timeout)\n" in made
    for word in ("async", "await", "aio."):
        assert word not in made.replace("jetspark.aio.sample", "")


def test_a_facade_has_a_docstring_of_one_line() -> None:
    with pytest.raises(ValueError, match="more than one line"):
        convert('"""One.\n\nMore.\n"""\n', "sample")


@pytest.mark.parametrize(
    ("method", "complaint"),
    [
        ("async def get(self) -> dict[str, One]: ...", "no translation"),
        ("async def put(self, other: One) -> None: ...", "takes a translated class"),
        ("async def get(self): ...", "no return type"),
        ("async def get(self, size: int = _SIZE) -> int: ...", "private to its module"),
        ("@cached_property\n    def get(self) -> int: ...", "decorators"),
    ],
)
def test_untranslatable_code_is_refused(method: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        translated(f'__all__ = ["One"]\nclass One:\n    {method}\n')
