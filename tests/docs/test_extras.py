"""Without an extra everything else works, and features that need the extra name it."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from tests.pages import run_process

from jetspark.bulk import Snapshot
from jetspark.spark import OpenTelemetryMetrics, PrometheusMetrics

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
    output = run_process(WITHOUT.format(missing=missing, use=use))
    assert missing[0] in output
    assert f"pip install '{extra}'" in output


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_snapshot_names_the_package_that_makes_its_frame(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    snapshot: Any = Snapshot(None, 0, None)  # type: ignore[arg-type]  # no frame is made
    with pytest.raises(ModuleNotFoundError, match=f"^Snapshot.to_{package} needs {package}: pip install {package}$"):
        getattr(snapshot, f"to_{package}")()


@pytest.mark.parametrize(
    ("collector", "module", "package"),
    [
        (PrometheusMetrics, "prometheus_client", "prometheus-client"),
        (OpenTelemetryMetrics, "opentelemetry.metrics", "opentelemetry-sdk"),
    ],
)
def test_metrics_name_the_extra_to_install(
    collector: type[PrometheusMetrics | OpenTelemetryMetrics],
    module: str,
    package: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    expected = re.escape(f"{collector.__name__} needs {package}: pip install 'jetspark[metrics]'")
    with pytest.raises(ModuleNotFoundError, match=f"^{expected}$"):
        collector()


def test_an_import_error_inside_a_package_is_not_reported_as_a_missing_extra() -> None:
    output = run_process(WITHOUT.format(missing=["jetspark.engine.ranges"], use="import jetspark.bulk"))
    assert "jetspark.engine.ranges" in output
    assert "pip install" not in output
