"""The reference of policy files, written from the schema.

`python -m tests.policy.reference > docs/reference/policies.md` writes the page.
"""

import json
import sys
from collections.abc import Collection, Iterator
from typing import Any

from tallygate.policy import parse as text
from tallygate.policy.schema import load_json_schema

_TYPES = {"object": "mapping", "array": "list", "string": "text", "number": "number", "boolean": "true or false"}

_HEAD = """# Reference of policy files

Every field of each kind, as the [schema](../../webhook/tallygate/policy/schema.json) describes it; this page is
generated from it. [policies/README.md](../../policies/README.md) is the guide to policies.

A file contains any number of documents, divided by `---`; a folder any number of files `*.yaml`, `*.yml` and
`*.json`, at any depth. Files and folders whose name begins with a dot are left out, and scenarios of `tallygate test`
are skipped.
A document of one kind looks like this:

```yaml
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule        # or NamespaceCap, ImpliedRequest, WorkloadKind, NodeResource, NodeShape
metadata: {name: whole-gpus}
spec: {…}
```
"""

FULL_EXAMPLES = {
    "ResourceRule": """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata:
  name: gpus-by-board
  annotations:
    tallygate.dev/why: a board has 8 GPUs in pairs; ml-platform@example.com knows alternatives
spec:
  resources: ["nvidia.com/*", "!nvidia.com/gpu.shared", "*.deviceclass.resource.k8s.io/devices"]
  match:
    namespaces:
      include: ["team-*"]
      exclude: [team-infra]
      selector: {matchLabels: {gpus: "yes"}}
    kinds: [Pod, Deployment, StatefulSet, Job, CronJob, ResourceClaim, ResourceClaimTemplate]
    objectSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [batch]}]}
    exempt: {users: [ada@example.com], groups: [gpu-admins], serviceAccounts: [ci/deployer]}
  enforcement: deny
  checks:
    wellFormedName: true
    wholeQuantity: true
    requestsEqualLimits: fill
    perContainer: {oneOf: [1, 2, 4, 8]}
    perPod: {min: 1, max: 8}
    advertised: true
    schedulable: never
    activeDeadlineSeconds: {max: 24h, required: true}
    perClaim: {max: 8}
    devices:
      classes: [gpu.example.com, "mig-*.example.com"]
      allocationModes: [ExactCount]
      adminAccess: {groups: [gpu-admins]}
      selectors: required
""",
    "NamespaceCap": """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata:
  name: batch-pool
  annotations:
    tallygate.dev/why: the batch pool has 4 boards; ml-platform@example.com has the plan
spec:
  namespaces:
    include: ["batch-*"]
    exclude: [batch-test]
    selector: {matchLabels: {gpus: "yes"}}
  shared: true
  groupBy: {label: team}
  hard: {nvidia.com/gpu: 32, requests.cpu: 256, limits.memory: 2Ti, pods: 200, h100: 4, gpu-memory: 640Gi, slices: 56}
  soft: {nvidia.com/gpu: 28, shared-memory: 500000, gpu-parts: 28000}
  overrides:
  - {groups: [vision, "speech-*"], hard: {nvidia.com/gpu: 40}, until: 2026-12-04T18:00:00Z}
  guarantee:
  - {namespaces: [batch-nightly], amounts: {nvidia.com/gpu: 8, h100: 1}}
  - {namespaces: ["batch-*"], amounts: {nvidia.com/gpu: 6.25%}}
  surge: {amounts: {nvidia.com/gpu: 4}, for: 15m}
  pods:
    priorityClasses: [batch, batch-low]
    nodeSelector: {gpu: a100}
    objectSelector: {matchLabels: {queue: nightly}}
  devices:
    nvidia.com/gpu: {classes: [gpu.example.com, mig.example.com]}
    h100: {selector: 'device.attributes["gpu.example.com"].model == "h100"'}
    gpu-memory: {sum: memory}
  counts:
    slices: {weights: {nvidia.com/mig-1g.10gb: 1, nvidia.com/gpu: 7}}
    shared-memory: {product: [nvidia.com/gpucores, {resource: nvidia.com/gpumem, default: 81920}]}
    gpu-parts: {annotation: gpu-fraction, weights: {nvidia.com/gpu: 1000}}
  workloads: deny
  admit: whole
  showTopConsumers: false
  exceed: {users: [ada@example.com], groups: [gpu-admins], serviceAccounts: [ci/deployer]}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: team-gpus}
spec:
  namespaces: {include: ["team-*"]}
  hard: {nvidia.com/gpu: 8}
  overrideAnnotation: {setBy: {groups: [platform-admins]}, most: {nvidia.com/gpu: 16}} # without groupBy and shared
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: half-of-the-pool}
spec:
  namespaces: {include: ["research-*"]}
  shared: true
  hard: {nvidia.com/gpu: 50%, requests.cpu: {percent: 12.5%, atLeast: 8, atMost: 640, round: up}}
  capacity:
    nodeSelector: {matchLabels: {pool: gpu}}
    excludeTaints: [maintenance]
    notReadyFor: 5m
    nodeShapes: false
    settle: 10m
""",
    "ImpliedRequest": """\
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata:
  name: one-address-each
  annotations:
    tallygate.dev/why: a node has a fixed number of pod addresses; ask netops@example.com
spec:
  resource: example.com/ip
  perPod: 1
  unless: {hostNetwork: true}
  match:
    namespaces:
      include: ["team-*"]
      exclude: [team-infra]
      selector: {matchLabels: {network: pods}}
    objectSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [batch]}]}
    exempt: {users: [ada@example.com], groups: [net-admins], serviceAccounts: [ci/deployer]}
  enforcement: deny
""",
    "WorkloadKind": """\
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata:
  name: gang-jobs
  annotations:
    example.com/source: https://gangs.example.com/docs/v1
spec:
  group: batch.example.com
  kind: GangJob
  resource: gangjobs
  versions: [v1, v1beta1]
  scope: Namespaced
  startsTogether: true
  suspended: [spec.suspend]
  pods:
  - template: spec.launcher.template
    fallback: spec.template
    noun: launchers
  - template: spec.tasks[*].template
    noun: workers
    count:
    - spec.tasks[*].replicas
    - {field: spec.size, minus: 1, default: 2}
    - {least: [{field: 'spec.tasks[*].parallelism', default: 1}, 'spec.tasks[*].completions']}
    most: [{field: 'spec.tasks[*].maxReplicas', default: 0}]
    autoscaled: spec.enableAutoscaling
  - podSpec: spec.server
  - resources: spec.resourcesPerNode
    noun: nodes
    count: ['metadata.annotations["example.com/nodes"]']
""",
    "NodeResource": """\
apiVersion: tallygate.dev/v1alpha1
kind: NodeResource
metadata:
  name: simulators
  annotations:
    tallygate.dev/why: the site owns a licence for each simulator; simulators@example.com has the list
spec:
  nodes: {selector: {matchLabels: {pool: sim}}}
  resources:
    example.com/licence: 8
    example.com/ip: {from: podCIDR, minus: 3}
    example.com/gbit: {fromLabel: net.example.com/gbit}
    example.com/bandwidth: {fromAnnotation: net.example.com/bandwidth, unit: 1G}
    example.com/disk: {fromCapacity: ephemeral-storage, unit: 100Gi}
""",
    "NodeShape": """\
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata:
  name: gpu-8
  annotations:
    tallygate.dev/why: the pool grows from zero; ml-platform@example.com has the plan
spec:
  labels: {node.kubernetes.io/instance-type: p5.48xlarge, kubernetes.io/os: linux, gpu: h100}
  taints:
  - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
  allocatable: {cpu: 190, memory: 2000Gi, pods: 110, nvidia.com/gpu: 8}
  most: 10
""",
}
"""A document of each kind with every field of its spec."""


def render_reference() -> str:
    """Return the page."""
    definitions = load_json_schema()["$defs"]
    parts = [_HEAD]
    for kind, example in FULL_EXAMPLES.items():
        parts.append(f"\n## {kind}\n\n{definitions[kind]['description']}\n")
        parts.append(f"\nWith every field:\n\n```yaml\n{example}```\n")
        parts.extend(render_fields(definitions[kind], ""))
    return "".join(parts) + _limits()


def _limits() -> str:
    return (
        "\n## Limits of the input\n\n"
        f"- a file: {text.MAX_FILE_BYTES:,} bytes, {text.MAX_LINES:,} lines, {text.MAX_NODES:,} values, "
        f"{text.LIMITS.depth} levels deep\n"
        f"- a document: {text.LIMITS.expanded:,} values when aliases are written out\n"
        f"- in all: {text.MAX_FILES:,} files, {text.MAX_TOTAL_BYTES:,} bytes, {text.MAX_DOCUMENTS:,} documents\n"
        "- compared with each other: 2,000 rules on one resource, or fewer with many names or wildcards\n"
        "\nLarger input is rejected (TG302).\n"
    )


def render_fields(part: dict[str, Any], path: str, described: Collection[str] = ()) -> Iterator[str]:
    """Yield an entry for each field of a part of a schema, at any depth; below no part with one of these titles."""
    for name, field in part.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield _entry(below, field, required=name in part.get("required", []))
        inner = {below: field, f"{below}[]": field.get("items", {}), f"{below}.NAME": field.get("additionalProperties")}
        for inner_path, inner_part in inner.items():
            if isinstance(inner_part, dict) and inner_part.get("title") not in described:
                yield from render_fields(inner_part, inner_path, described)


def _entry(path: str, field: dict[str, Any], *, required: bool) -> str:
    facts = [_type(field), "required" if required else f"default {_default(field)}"]
    shown = [f"`{_format_value(each)}`" for each in field.get("examples", [])]
    example = f"\n\nExample: {', '.join(shown)}" if shown else ""
    return f"\n### `{path}`\n\n*{'; '.join(facts)}*\n\n{field['description']}{example}\n"


def _type(field: dict[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return "one of " + ", ".join(f"`{_format_value(each)}`" for each in field["enum"])
    types = field["type"] if isinstance(field["type"], list) else [field["type"]]
    return " or ".join(_TYPES[each] for each in types)


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    return "none" if default in (None, {}, [], "") else f"`{_format_value(default)}`"


def _format_value(value: Any) -> str:
    """Return a value as YAML in flow style, without unnecessary quotes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_format_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(each) for each in value) + "]"
    if isinstance(value, str):
        return value if _is_bare(value) else json.dumps(value)
    return json.dumps(value)


def _is_bare(text: str) -> bool:
    return text[:1] not in "!*?&" and text not in {"yes", "1"} and not any(mark in text for mark in ":,#[]{}")


if __name__ == "__main__":
    sys.stdout.write(render_reference())
