"""Twenty policies, as a cluster with several kinds of devices has them: the shipped ones, rules, and caps by namespace.

All of them accept the pods of the bench. The same policies are those of a gate and of the compiled objects.
"""

import json
from collections.abc import Iterator
from typing import Any

from e2e.bench.objects import PLENTY, cap
from e2e.bench.registrations import NAMESPACE_LABEL
from e2e.bench.variants import UNCOUNTED
from e2e.policy_files import SHIPPED_FILES
from tallygate.admission.match_conditions import MatchConditions
from tallygate.backstop.admission_policies import BINDING_KIND
from tallygate.backstop.compilation import compile_policies
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import parse

_CHECKS: dict[str, dict[str, Any]] = {
    "nvidia.com/gpu": {"perContainer": {"oneOf": [1, 2, 4, 8]}},
    "amd.com/gpu": {"perContainer": {"oneOf": [1, 4, 8]}},
    "nvidia.com/mig-*": {"perContainer": {"max": 1}},
    "habana.ai/gaudi": {"perContainer": {"oneOf": [1, 8]}},
    "example.com/fpga": {"perPod": {"max": 2}},
    "example.com/cache-ways": {"perContainer": {"multipleOf": 4}},
    "licences.example.com/*": {"perPod": {"max": 1}},
    "rdma.example.com/hca": {"perContainer": {"min": 1, "max": 8}},
    "smarter-devices/*": {"perContainer": {"max": 1}},
    "example.com/dongle": {"perPod": {"multipleOf": 2}},
}
_TEAMS = ("research", "serving", "training", "vision", "speech", "robots")


def create_files(*caps: dict[str, Any]) -> dict[str, str]:
    """Return the policy files with these caps beside those of six other namespaces."""
    own = [*_create_rules(), *(cap(f"{team}-gpus", team, 8) for team in _TEAMS), *caps]
    return {**SHIPPED_FILES, "bench.yaml": "\n---\n".join(map(json.dumps, own))}


def create_conditions() -> MatchConditions:
    """Return the conditions under which the API server asks a gate with twenty policies."""
    return MatchConditions(_parse_policies(UNCOUNTED.namespace))


def compile_objects(namespace: str) -> list[CompiledObject]:
    """Return what is compiled from twenty policies, limited to a namespace, which has one of the caps."""
    objects = compile_policies(_parse_policies(namespace), ObservedCluster(), None).objects
    return [_limit(each, namespace) for each in objects if each["metadata"].get("namespace", namespace) == namespace]


def _parse_policies(namespace: str) -> PolicySet:
    """Return the twenty policies, one of which is a cap on the GPUs of this namespace that is never reached."""
    files = create_files(cap("bench-gpus", namespace, PLENTY))
    return parse([(name, text.encode()) for name, text in files.items()]).policies


def _limit(content: CompiledObject, namespace: str) -> CompiledObject:
    """Return a compiled object that is about one namespace: others are compared with it."""
    if content["kind"] != BINDING_KIND:
        return content
    resources = content["spec"].get("matchResources", {}) | {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: namespace}}
    }
    return content | {"spec": content["spec"] | {"matchResources": resources}}


def _create_rules() -> Iterator[dict[str, Any]]:
    for number, (resource, checks) in enumerate(_CHECKS.items()):
        yield {
            "apiVersion": "tallygate.dev/v1alpha1",
            "kind": "ResourceRule",
            "metadata": {"name": f"rule-{number}"},
            "spec": {"resources": [resource], "checks": checks},
        }
