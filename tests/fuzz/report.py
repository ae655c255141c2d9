"""The findings of a run: hangs, foreign errors, disagreements, and the shortest input of each."""

from __future__ import annotations

import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from tests.fuzz.mutations import shrink
from tests.fuzz.parsers import Disagreement

__all__ = ["CASE_SECONDS", "HangError", "Report", "deadline_for_each_case"]

CASE_SECONDS: Final = 5.0
"""Bound of one case in CPU time, as the machine may be busy. A case takes a millisecond."""
_SHOWN: Final = 2000
_SHRINK_SECONDS: Final = 10.0


class HangError(BaseException):
    """A case has not ended in time. No code of the library catches it."""


@dataclass
class Report:
    """The counts of a run, and an example of each kind of finding."""

    seed: int
    frames: int = 0
    connection_frames: int = 0
    mutations: int = 0
    found: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def run(self, where: str, case: Callable[[bytes], object], data: bytes) -> None:
        """Run a case, and note what it raises. `case` raises nothing if all is well."""
        signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
        try:
            case(data)
            signal.setitimer(signal.ITIMER_PROF, 0)
        except BaseException as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            if isinstance(error, KeyboardInterrupt):
                raise
            self._note(where, case, data, error)

    def _note(self, where: str, case: Callable[[bytes], object], data: bytes, error: BaseException) -> None:
        kind = _kind(error)
        name = f"{kind} in {where}: {type(error).__name__} at {_place(error)}"
        self.found[name] += 1
        if name in self.examples:
            return

        def fails(shorter: bytes) -> bool:
            signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
            try:
                case(shorter)
            except BaseException as again:  # noqa: BLE001 - as above
                return type(again) is type(error)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            return False

        shortest = data if kind == "hang" else shrink(data, fails, seconds=_SHRINK_SECONDS)
        text = repr(shortest)
        if len(text) > _SHOWN:
            text = f"{text[:_SHOWN]}... ({len(shortest)} bytes)"
        self.examples[name] = f"{error}\n    input: {text}"

    def count(self, kind: str) -> int:
        """Return the number of findings of a kind: `hang`, `foreign error`, `disagreement`."""
        return sum(count for name, count in self.found.items() if name.startswith(kind))

    @property
    def peak_mib(self) -> float:
        """The largest resident memory of the process so far, in MiB."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)

    def __str__(self) -> str:
        findings = "".join(f"\n  {count} x {name}\n    {self.examples[name]}" for name, count in self.found.items())
        return (
            f"seed {self.seed}: {self.frames} frames ({self.connection_frames} of them through a connection, too), "
            f"{self.mutations} mutations, {self.count('hang')} hangs, "
            f"{self.count('foreign error')} foreign errors, {self.count('disagreement')} disagreements, "
            f"peak memory {self.peak_mib:.0f} MiB{findings}"
        )


def _kind(error: BaseException) -> str:
    if isinstance(error, HangError):
        return "hang"
    return "disagreement" if isinstance(error, Disagreement) else "foreign error"


def _place(error: BaseException) -> str:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "/jetspark/" in each.filename]
    last = (frames or traceback.extract_tb(error.__traceback__))[-1]
    return f"{last.filename.rpartition('/')[2]}:{last.lineno}"


@contextmanager
def deadline_for_each_case() -> Iterator[None]:
    """Raise HangError in a case that lasts too long."""

    def late(_: int, __: FrameType | None) -> None:
        raise HangError(f"a case lasts longer than {CASE_SECONDS:g} s")

    before = signal.signal(signal.SIGPROF, late)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
