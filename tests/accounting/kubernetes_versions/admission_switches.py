"""The cases of the switches of built-in admission and of ResourceQuotas."""

from typing import Any

import msgspec

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.pod_defaults import create_pod_defaults
from tallygate.accounting.pod_resources import complete_pod_level
from tallygate.accounting.resource_quota import compute_quota_charge
from tallygate.accounting.validation.pod_bounds import check_pod_bounds
from tallygate.objects.core import LimitRange, Pod, PodSpec
from tests.accounting.kubernetes_versions.switch_case import switch_case

Json = dict[str, Any]


def _check_ratio(version: KubernetesVersion, ratio: str, limit: str) -> list[str]:
    """Return the fields of a container with a request of one cpu that its LimitRange rejects."""
    written = {"spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": ratio}}]}}
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": limit}}
    spec = _decode({"containers": [{"name": "c", "resources": resources}]}, PodSpec)
    defaults = create_pod_defaults([_decode(written, LimitRange)], {}, version=version)
    return [each.field for each in check_pod_bounds(spec, defaults.bounds, version, is_complete=True)]


def _decode(written: Json, kind: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(written), type=kind)


_LIMIT = "spec.containers[0].resources.limits[cpu]"


@switch_case(Switch.COMPARES_RATIOS_EXACTLY, before=[_LIMIT], after=[])
def limit_a_container_to_just_its_ratio(version: KubernetesVersion) -> Any:
    return _check_ratio(version, "2007m", "2007m")


def charge_limits(version: KubernetesVersion, *containers: Json, init: Json | None = None, **spec: Any) -> Json:
    """Return the amounts of limits that a quota charges for a pod with these limits of its containers."""
    named = [{"name": f"c{index}", "resources": {"limits": each}} for index, each in enumerate(containers)]
    steps = [] if init is None else [{"name": "init", "resources": {"limits": init}}]
    pod = _decode({"spec": {"containers": named, "initContainers": steps, **spec}}, Pod)
    charge = compute_quota_charge(pod, None, version)
    return {key: str(amount) for key, amount in charge.items() if key.startswith("limits.")}


@switch_case(
    Switch.OMITS_PARTIAL_LIMITS, before={"limits.cpu": "1", "limits.memory": "2Gi"}, after={"limits.memory": "2Gi"}
)
def charge_a_pod_of_which_one_container_has_no_limit(version: KubernetesVersion) -> Any:
    return charge_limits(
        version, {"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"}, resources={"requests": {"cpu": "1"}}
    )


@switch_case(Switch.OMITS_PARTIAL_LIMITS, before={"limits.cpu": "1"}, after={})
def charge_a_pod_of_which_one_container_has_a_limit_of_zero(version: KubernetesVersion) -> Any:
    return charge_limits(version, {"cpu": "1"}, {"cpu": "0"})


@switch_case(Switch.OMITS_PARTIAL_LIMITS, before={"limits.memory": "1Gi"}, after={})
def charge_a_pod_of_which_an_init_container_has_no_limit(version: KubernetesVersion) -> Any:
    return charge_limits(version, {"memory": "1Gi"}, init={})


@switch_case(Switch.OMITS_PARTIAL_LIMITS, before={"cpu": "2"}, after={})
def complete_a_pod_level_beside_a_limit_of_zero(version: KubernetesVersion) -> Any:
    """Return the limits that the pod level gets by default, where one container has a limit of 0."""
    containers = [{"name": name, "resources": {"limits": {"cpu": cpu}}} for name, cpu in (("c", "1"), ("d", "0"))]
    spec = _decode({"containers": containers, "resources": {"requests": {"cpu": "2"}}}, PodSpec)
    return {name: str(limit) for name, limit in complete_pod_level(spec, version).limits.items()}
