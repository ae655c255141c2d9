"""Without an extra everything else works, and features that need the extra name it."""

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
def test_a_missing_package_is_reported_with_the_extra_to_install(missing: list[str], use: str, extra: str) -> None:
    output = run(WITHOUT.format(missing=missing, use=use))
    assert missing[0] in output
    assert f"pip install '{extra}'" in output


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_snapshot_names_the_package_that_makes_its_frame(package: str) -> None:
    use = f"import jetspark.bulk; sys.modules[{package!r}] = None; jetspark.bulk.Snapshot(None, 0, None).to_{package}()"
    output = run(WITHOUT.format(missing=[], use=use))
    assert output == f"Snapshot.to_{package} needs {package}: pip install {package}\n"


def test_an_import_error_inside_a_package_is_not_reported_as_a_missing_extra() -> None:
    output = run(WITHOUT.format(missing=["jetspark.engine.ranges"], use="import jetspark.bulk"))
    assert "jetspark.engine.ranges" in output
    assert "pip install" not in output
