"""The Kubernetes example, as far as it can be checked without Kubernetes: manifest, settings, image, job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.java_collections import JavaList
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from jetspark.spark.options.table import OPTIONS

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "kubernetes"
PREFIXES: Final = ("spark.kubernetes.executor.secrets.",)
"""Settings whose names end in a name of the user's."""

pytestmark = pytest.mark.spark


def client(session: SparkSession) -> Any:
    jvm = session.sparkContext._jvm
    assert jvm is not None
    return jvm.io.fabric8.kubernetes.client.utils.KubernetesSerialization()


@pytest.fixture(scope="module")
def resources(session: SparkSession) -> list[Any]:
    """The resources of the manifest, read by the Kubernetes client that is a part of Spark."""
    return [client(session).unmarshal(text) for text in (EXAMPLE / "orders.yaml").read_text().split("\n---\n")]


def arguments(resources: list[Any]) -> list[str]:
    return [str(text) for text in container(resources).getArgs()]


def container(resources: list[Any]) -> Any:
    (deployment,) = (each for each in resources if each.getKind() == "Deployment")
    return deployment.getSpec().getTemplate().getSpec().getContainers()[0]


def settings(resources: list[Any]) -> dict[str, str]:
    return dict(
        text.removeprefix("--conf=").split("=", 1) for text in arguments(resources) if text.startswith("--conf=")
    )


def unknown_fields(value: Any, at: str) -> list[str]:
    """Return the fields that Kubernetes does not know: the classes of its client keep them apart."""
    if isinstance(value, JavaList):
        return [each for index, item in enumerate(value) for each in unknown_fields(item, f"{at}[{index}]")]
    names = dir(value) if isinstance(value, JavaObject) else []
    if "getAdditionalProperties" not in names:
        return []
    found = [f"{at}.{name}" for name in value.getAdditionalProperties()]
    for name in (each.removeprefix("set") for each in names if re.fullmatch(r"set[A-Z]\w+", each)):
        if f"get{name}" in names and name != "AdditionalProperties":
            found += unknown_fields(getattr(value, f"get{name}")(), f"{at}.{name}")
    return found


@pytest.mark.matrix
def test_kubernetes_knows_every_field_of_the_manifest(resources: list[Any]) -> None:
    assert [resource.getKind() for resource in resources] == [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "Service",
        "PersistentVolumeClaim",
        "Deployment",
    ]
    assert [each for resource in resources for each in unknown_fields(resource, resource.getKind())] == []


@pytest.mark.matrix
def test_a_field_that_kubernetes_does_not_know_is_found(session: SparkSession) -> None:
    text = (EXAMPLE / "orders.yaml").read_text().split("\n---\n")[-1].replace("mountPath: /etc/nats", "path: /etc/nats")
    assert unknown_fields(client(session).unmarshal(text), "Deployment") == [
        "Deployment.Spec.Template.Spec.Containers[0].VolumeMounts[0].path"
    ]


def test_spark_knows_every_setting_of_the_manifest(session: SparkSession, resources: list[Any]) -> None:
    jvm = session.sparkContext._jvm
    assert jvm is not None
    assert jvm.org.apache.spark.deploy.k8s.Config.CONTAINER_IMAGE() is not None  # it registers the settings
    known = jvm.org.apache.spark.internal.config.ConfigEntry
    sql = jvm.org.apache.spark.sql.internal.SQLConf
    names = [name for name in settings(resources) if not name.startswith(PREFIXES)]
    assert len(names) > 8
    assert [name for name in names if known.findEntry(name) is None and not sql.containsConfigKey(name)] == []
    assert known.findEntry("spark.kubernetes.container.imag") is None


def test_manifest_image_and_job_agree(resources: list[Any]) -> None:
    dockerfile, job = (EXAMPLE / "Dockerfile").read_text(), (EXAMPLE / "job.py").read_text()
    conf = settings(resources)
    assert conf["spark.kubernetes.container.image"] == container(resources).getImage()
    assert f"COPY examples/kubernetes/job.py {arguments(resources)[-1]}" in dockerfile
    (interpreter,) = re.findall(r"ENV PYSPARK_PYTHON=(\S+)/bin/python", dockerfile)
    assert f"uv venv --python 3.12 --managed-python {interpreter} " in dockerfile
    for mount in container(resources).getVolumeMounts():
        if mount.getName() == "nats":
            assert f"{mount.getMountPath()}/user.creds" in job
            assert conf["spark.kubernetes.executor.secrets.nats"] == mount.getMountPath()
    variables = {variable.getName() for variable in container(resources).getEnv()}
    assert set(re.findall(r'environ\["(\w+)"\]', job)) <= variables
    cores = int(conf["spark.executor.instances"]) * int(conf["spark.executor.cores"])
    assert conf["spark.sql.leafNodeDefaultParallelism"] == str(cores)
    options = {option.name for option in OPTIONS}
    assert set(re.findall(r"(\w+)=\"", job)) <= options
