"""The reference of scenarios: `python -m tests.cli.scenarios.scenario_reference > docs/reference/scenarios.md`."""

import sys
from typing import Any

from tallygate.cli.scenarios.scenario import MAX_PODS
from tallygate.cli.scenarios.scenario_files import MAX_SCENARIOS, MAX_WAIT_SECONDS, get_scenario_language
from tests.policy.reference import render_fields

_HEAD = """# Reference of scenarios

A scenario has requests in a given order, each with its expected result. `tallygate test` runs it against policies,
without a cluster, with the code of the gate and of its ledger reconciler. This page is generated from the
[schema](../../webhook/tallygate/cli/scenarios/schema.json); [policies/examples/tests](../../policies/examples/tests)
has scenarios to copy, and [check-in-ci.md](../tasks/check-in-ci.md) shows how to run them in CI. Folders are read at
any depth, without files and folders whose name begins with a dot; policies in them are skipped.

```yaml
# yaml-language-server: $schema=webhook/tallygate/cli/scenarios/schema.json
name: a team has eight GPUs
policies: [../cap-per-team.yaml]
namespaces: {team-a: {labels: {team: vision}}}
steps:
- create: {pod: one, resources: {nvidia.com/gpu: 6, memory: 8Gi}}
- create: {pod: two, resources: {nvidia.com/gpu: 4, memory: 8Gi}}
  expect: {verdict: denied, codes: [TG201], message: free 2}
- finish: {pod: one}
- create: {pod: two, resources: {nvidia.com/gpu: 4, memory: 8Gi}}
```

## How a scenario runs

- **The API server.** A request gets the defaults of Kubernetes (requests from limits). It then passes the mutating
  webhook, the validation of resources by Kubernetes as in `tallygate check`, and the validating webhook. An
  allowed object is stored with a uid and a revision, and the watches report it at once. Other validation, quotas, limit
  ranges and scheduling are not simulated.
- **Controllers** create the pods of Deployments, ReplicaSets, StatefulSets, Jobs, DaemonSets and ReplicationControllers
  as users with their service accounts. The pods of a workload are named `NAME-1`, `NAME-2` … (of a StatefulSet from 0),
  with the lowest free number. After the rejection of a pod, the controller retries later (1, 2, 4 … seconds of `wait`),
  or when its workload or pods have changed. A Deployment
  whose template changes rolls, or recreates its pods, by its strategy: a new pod is ready at once, and the pods of its
  second template are named `NAME-r2-1` … Pods of an old template of another workload stay.
  Another controller makes the ResourceClaims of pods from their templates, named `POD-NAME-1` …, and deletes them with
  their pods. The forecasts for these claims are those of the gate. No scheduler allocates devices: a step does
  (`allocate`), and the gate may reject it. The DeviceClasses and ResourceSlices of a cluster are created by steps.
- **Time** passes in `wait` only. Ledgers are active when a scenario begins. The amounts of an allowed pod are
  *reserved*; after `wait: 1s` its ledger has counted it, and they are *used*. A new ledger of an older namespace
  becomes active after some 40 seconds; until then pods must be sent again later (`verdict: retry`).
- **Nodes** get the amounts of NodeResources at the start and after each step, as the gate writes them: what pods with
  the node's name use stays. `fromCapacity` reads what the scenario gives the node.
- **The end.** The first step with an unexpected result ends a scenario.

"""
_BOUNDS = f"""
## Bounds

Those of [policy files](policies.md#limits-of-the-input), and {MAX_SCENARIOS:,} scenarios, {MAX_PODS:,} pods a
workload, {MAX_WAIT_SECONDS / 3600:g} hours a step.
"""


_OBJECT = (
    "The object, in one of three ways: in short (`pod`, `deployment`, `statefulset` or `job` with the requests of its "
    "container), whole (`manifest`), or from a file (`file`)."
)


def create_reference() -> str:
    """Return the whole page."""
    whole: dict[str, Any] = dict(get_scenario_language().schema)
    step = whole["properties"]["steps"]["items"]
    expectation = step["properties"]["expect"]
    sections = {
        "A step": (step["description"], step),
        "An object": (_OBJECT, step["properties"]["create"]),
        "An expectation": (expectation["description"], expectation),
    }
    titles = {part["title"] for _, part in sections.values()}
    parts = [_HEAD, "## A scenario\n", *render_fields(whole, "", titles)]
    for title, (description, part) in sections.items():
        parts.append(f"\n## {title}\n\n{description}\n")
        parts.extend(render_fields(part, "", titles))
    return "".join(parts) + _BOUNDS


if __name__ == "__main__":
    sys.stdout.write(create_reference())
