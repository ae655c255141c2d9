"""`python -m demo`: runs the stages, shows the results, and fails if a count does not match."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from demo.checks import check_results, stages
from demo.driver import DriverFailedError
from demo.picture import draw_delays
from demo.publish import load_flights
from demo.report import end_of_log, make_progress, show_chart, show_checks, show_stages
from demo.run import LOG_NAME, run
from jetspark.server import NatsServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _parse(arguments)
    console = Console()
    output: Path = options.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    try:
        with NatsServer() as server, make_progress(console) as progress:
            results = run(server, load_flights(options.rows), output, progress)
    except DriverFailedError as error:
        console.print(f"[bold red]✗[/] {error}; the end of its log, {output / LOG_NAME}:", soft_wrap=True)
        console.print(end_of_log(output / LOG_NAME), markup=False, highlight=False, soft_wrap=True)
        return 1
    console.print()
    show_stages(console, stages(results))
    console.print(f"Spark's driver was killed once and started again; {results.batches} micro-batches.")
    console.print()
    show_chart(console, results.counts.returned.rows)
    picture = output / "delays.png"
    draw_delays(results.counts.returned.rows, picture)
    console.print(f"\nPicture of the delays: {picture}", soft_wrap=True)
    console.print(f"Flights in Parquet:    {output / 'flights.parquet'}", soft_wrap=True)
    return 0 if show_checks(console, check_results(results)) else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Publishes the flights from New York City, 2013, as JSON to JetStream. Streaming queries write "
        "them to Parquet, and the delays of every hour back to JetStream. Kills Spark in the middle and starts it "
        "again. Counts every message, and exits with 1 if a count does not match.",
    )
    parser.add_argument("--rows", type=_positive, help="only the first ROWS flights (default: all 336,776)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/demo"),
        help="directory of the results (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"not a positive number: {text!r}")
    return number


if __name__ == "__main__":
    raise SystemExit(main())
