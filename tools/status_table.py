"""Write the table of statuses in docs/consuming.md from the table that the code uses.

python -m tools.status_table          writes the page
python -m tools.status_table --check  fails when the page is not up to date
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

from jetspark.jetstream.status import STATUS_RULES, ConsumeEffect, FetchEffect, StatusRule, StatusSeverity

PAGE: Final = Path(__file__).parents[1] / "docs" / "consuming.md"
_PLACE: Final = re.compile(r"(?<=<!-- statuses: tools/status_table.py -->\n).*?(?=<!-- end -->)", re.DOTALL)

_FETCH: Final = {
    FetchEffect.IGNORE: "nothing",
    FetchEffect.TIMER: "restarts the heartbeat timer",
    FetchEffect.END: "ends",
    FetchEffect.END_WITH_ERROR: "ends with the error",
}
_CONSUME: Final = {
    ConsumeEffect.IGNORE: "nothing",
    ConsumeEffect.TIMER: "restarts the heartbeat timer",
    ConsumeEffect.PULL: "pulls again",
    ConsumeEffect.WARN_AND_PULL: "warns, pulls again",
    ConsumeEffect.WARN: "warns, continues",
    ConsumeEffect.END: "ends with the error",
}


def table() -> str:
    """Return the table as Markdown."""
    lines = [
        "| Status | Text contains | Kind | fetch, next | consume | Error or warning | |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_line(rule) for rule in STATUS_RULES]
    return "\n".join(lines) + "\n"


def _line(rule: StatusRule) -> str:
    code = "any other" if rule.code is None else str(rule.code)
    consume = _CONSUME[rule.consume]
    if rule.delays_next_pull:
        consume += ", paced"
    if rule.clears_pin:
        consume += " without the id"
    shown = rule.severity in {StatusSeverity.WARNING, StatusSeverity.ERROR} or rule.message_too_large
    cells = [code, rule.contains or "anything", rule.severity.value, _FETCH[rule.fetch], consume]
    cells += [f"`{rule.error.__name__}`" if shown else "", rule.id]
    return f"| {' | '.join(cells)} |"


def written(page: str) -> str:
    """Return the page with the table in its place."""
    return _PLACE.sub(lambda _: table(), page)


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page would change")
    check = parser.parse_args(arguments).check
    page = PAGE.read_text(encoding="utf-8")
    stale = written(page) != page
    if stale and not check:
        PAGE.write_text(written(page), encoding="utf-8")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
