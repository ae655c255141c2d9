"""Peak memory: run a function in a process of its own and say how much that took.

    result, peak = in_subprocess(scan_everything, url, "EVENTS")

The process is started afresh, not forked, so that nothing of the caller's is counted. On Linux the peak is `VmHWM` of
that process: `ru_maxrss` would not do, since it keeps what the caller had at the moment of the start.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

P = ParamSpec("P")
T = TypeVar("T")

STATUS = Path("/proc/self/status")


class Measured(NamedTuple, Generic[T]):
    """The result of a function, and the memory that it needed."""

    result: T
    peak: int
    """The process's largest resident set, in bytes, with the interpreter and everything imported."""


def in_subprocess(target: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Measured[T]:
    """Call `target`, which must be importable, in a new process; arguments and result must pickle.

    Raises:
        RuntimeError: the process ended without a result; what went wrong is on its error stream.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(theirs, target, args, kwargs))
    process.start()
    theirs.close()
    try:
        result, peak = ours.recv()
    except EOFError as end:
        process.join()
        raise RuntimeError(f"the process for {target.__name__} ended with code {process.exitcode}") from end
    process.join()
    return Measured(result, peak)


def peak_memory() -> int:
    """The largest resident set of this process so far, in bytes."""
    if STATUS.exists():
        fields = dict(line.split(":", 1) for line in STATUS.read_text(encoding="ascii").splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _call(results: Connection, target: Callable[P, T], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    result = target(*args, **kwargs)  # type: ignore[arg-type]  # a process's arguments have lost their types
    results.send((result, peak_memory()))
