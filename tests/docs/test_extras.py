"""Without an extra everything else works, and what needs it says which one."""

from __future__ import annotations

import pytest
from tests.pages import run

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # as if it were not installed
import jetspark, jetspark.sync, jetspark.aio.jetstream
try:
    {use}
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("missing", "use", "extra"),
    [
        (["numpy"], "import jetspark.bulk", "jetspark[arrow]"),
        (["pyarrow"], "import jetspark.bulk", "jetspark[arrow]"),
        (["pyspark"], "import jetspark.spark", "jetspark[spark]"),
    ],
)
def test_what_is_missing_is_told_with_what_to_install(missing: list[str], use: str, extra: str) -> None:
    told = run(WITHOUT.format(missing=missing, use=use))
    assert missing[0] in told
    assert f"pip install '{extra}'" in told


def test_an_error_within_is_not_taken_for_a_missing_extra() -> None:
    told = run(WITHOUT.format(missing=["jetspark.engine.ranges"], use="import jetspark.bulk"))
    assert "jetspark.engine.ranges" in told
    assert "pip install" not in told
