"""A long run of hostile input: `make fuzz`, or `python -m tests.fuzz.campaign --frames N --mutations N --seed N`.

Hostile frames go through the scalar parser, the read loop, the vectorised decoder and a whole asyncio connection on a
transport in memory. Mutations go through every small parser. The run counts hangs, errors that are not of the library,
disagreements between two readers of the same bytes, and the peak memory. It ends with status 1 if there are any, or if
the memory exceeds its limit, and prints the shortest input of each.
"""

from __future__ import annotations

import argparse
import logging
import random
import secrets
import sys
import time
from collections.abc import Callable
from typing import Final

from tests.fuzz.connection import play
from tests.fuzz.decoders import DecoderCase
from tests.fuzz.frames import FrameMaker
from tests.fuzz.mutations import Mutator
from tests.fuzz.parsers import PARSERS, TextParser
from tests.fuzz.report import Report, deadline_for_each_case

__all__ = ["main", "mutate_parsers", "read_frames"]

MEMORY_MIB: Final = 200
_TURN: Final = 50_000  # mutations, then frames, and so on
_CONNECTION_SHARE: Final = 0.1  # of the streams: a connection costs more than all readers together
_REPORT_SECONDS: Final = 60.0


def mutate_parsers(report: Report, count: int, rng: random.Random) -> None:
    """Give `count` mutations in total to all parsers."""
    shares = sum(parser.share for parser in PARSERS.values())
    for name, parser in PARSERS.items():
        mutator, case = Mutator(parser.seeds, rng), _case(parser)
        part = max(round(count * parser.share / shares), 1)
        for _ in range(part):
            report.run(name, case, mutator.next())
        report.mutations += part


def read_frames(report: Report, count: int, rng: random.Random) -> None:
    """Give `count` hostile frames to all readers, and some of the streams to a whole connection, too."""
    maker = FrameMaker(rng)
    until = report.frames + count
    while report.frames < until:
        frames, limits = maker.stream()
        data = b"".join(frames)
        report.run(f"the readers (longest line {limits.line}, size {limits.size})", DecoderCase(limits), data)
        report.frames += len(frames)
        if rng.random() < _CONNECTION_SHARE:
            report.run("the connection", play, data)
            report.connection_frames += len(frames)


def _case(parser: TextParser) -> Callable[[bytes], object]:
    read, errors = parser.read, parser.errors

    def case(data: bytes) -> object:
        try:
            return read(data)
        except errors as error:
            return str(error)

    return case


def main() -> int:
    """Run, report, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--mutations", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    given = parser.parse_args()
    logging.disable()  # the connection reports what is wrong with each frame
    report, rng, shown = Report(given.seed), random.Random(given.seed), time.monotonic()
    turns = max(max(given.frames, given.mutations) // _TURN, 1)
    with deadline_for_each_case():
        for _ in range(turns):
            mutate_parsers(report, given.mutations // turns, rng)
            read_frames(report, given.frames // turns, rng)
            if time.monotonic() - shown > _REPORT_SECONDS:
                shown = time.monotonic()
                print(report, flush=True)
    print(report)
    return int(bool(report.found) or report.peak_mib > MEMORY_MIB)


if __name__ == "__main__":
    sys.exit(main())
