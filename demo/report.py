"""The output of the demo in the terminal: progress, the table, a small chart, and the checks that failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from demo.checks import Check, Stage
from demo.counts import Delay
from demo.picture import mean_delay

__all__ = ["end_of_log", "make_progress", "show_chart", "show_checks", "show_stages"]

_CHART_WIDTH: Final = 60
_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_LINES_OF_LOG: Final = 30


def make_progress(console: Console) -> Progress:
    """Return a progress bar with one line for each stage."""
    return Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description:<20}"),
        BarColumn(bar_width=25),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def show_stages(console: Console, lines: Sequence[Stage]) -> None:
    """Print the table."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("every message counted", no_wrap=True)
    for name in ("published", "written", "lost", "duplicated", "msg/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            line.name,
            *("" if count is None else f"{count:,}" for count in (line.published, line.written)),
            *(f"[{'red' if count else 'green'}]{count:,}[/]" for count in (line.lost, line.duplicated)),
            f"{line.rate:,.0f}",
        )
    console.print(table)


def show_chart(console: Console, delays: Sequence[Delay]) -> None:
    """Print the mean delay of all carriers by hour, as bars."""
    by_hour = {hour: [each for each in delays if each.hour == hour] for hour in sorted({each.hour for each in delays})}
    means = {hour: mean for hour, group in by_hour.items() if (mean := mean_delay(group)) is not None}
    longest = max(means.values(), default=0.0)
    console.print(Text("Mean departure delay by hour, minutes", style="bold"))
    for hour, mean in means.items():
        length = max(mean, 0.0) / longest * _CHART_WIDTH if longest > 0 else 0.0
        console.print(Text.assemble((f"  {hour:02d} ", "dim"), (_bar(length), "dark_orange"), f" {mean:.1f}"))


def _bar(length: float) -> str:
    whole, part = divmod(round(length * 8), 8)
    return "█" * whole + (_BLOCKS[part] if part else "")


def show_checks(console: Console, checks: Sequence[Check]) -> bool:
    """Print the checks that failed, or that all succeeded; returns whether all succeeded."""
    wrong = [check for check in checks if not check.holds]
    for check in wrong:
        console.print(f"[bold red]✗[/] {check.name}: expected {_shown(check.expected)}, got {_shown(check.actual)}")
    if not wrong:
        console.print(f"[green]✓[/] all {len(checks)} checks hold")
    return not wrong


def _shown(value: object) -> str:
    return f"{len(value)} rows" if isinstance(value, list) else str(value)


def end_of_log(log: Path) -> str:
    """Return the last lines of Spark's log, without the frames of the JVM's stack traces."""
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if not line.startswith("\tat ")][-_LINES_OF_LOG:])
