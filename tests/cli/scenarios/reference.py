"""The reference of sequence files, from their schema: `python -m tests.cli.scenarios.reference > docs/sequences.md`."""

import sys
from typing import Any

from tests.policy.reference import fields
from webhook.cli.scenarios.scenario import MAX_PODS
from webhook.cli.scenarios.scenario_files import MAX_SCENARIOS, MAX_WAIT_SECONDS, get_scenario_language

_HEAD = """# Reference of sequence tests

A sequence tells a story: who sends what in which order, and what is to come of it. `tallygate test` plays it before
policies, without a cluster, by the code of the gate and of the keeper of its ledgers. This page is written from the
[schema](../webhook/cli/scenarios/schema.json); [policies/examples/tests](../policies/examples/tests) has sequences to
copy, and [check-in-ci.md](check-in-ci.md) says how they are run in CI.

```yaml
# yaml-language-server: $schema=webhook/cli/scenarios/schema.json
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

## How it is played

- **The API server.** What is sent gets the defaults of Kubernetes (requests from limits), then passes the mutating
  webhook, Kubernetes' own validation of resources as `tallygate check` has it, and the validating webhook, in this
  order. What is allowed is stored with a uid and a revision, and the watches tell of it at once. Other validation,
  quota, limit ranges and scheduling are not played.
- **Controllers** make the pods of Deployments, ReplicaSets, StatefulSets, Jobs, DaemonSets and ReplicationControllers,
  in the name of their service accounts. A workload's pods are called `NAME-1`, `NAME-2` … (of a StatefulSet from 0),
  the lowest free number first. When a pod is refused, the controller tries again after a while (1, 2, 4 … seconds of
  `wait`), or when its workload or pods have changed. A rollout is not played: pods of an old template stay.
- **Time** stands still but for `wait`. Ledgers are open when a sequence begins. A pod that is allowed is *promised*
  room; after `wait: 1s` its ledger has counted it, and it is *held*. A new ledger of a namespace that is not new itself
  opens after some 40 seconds; until then requests get a 429 (`verdict: retry`).
- **The end.** A sequence ends with the first step of which something else comes than is expected.

"""
_BOUNDS = f"""
## Bounds

Those of [policy files](policies.md#bounds-of-what-is-read), and {MAX_SCENARIOS:,} sequences, {MAX_PODS:,} pods a
workload, {MAX_WAIT_SECONDS / 3600:g} hours a step.
"""


def reference() -> str:
    """The whole page."""
    whole: dict[str, Any] = dict(get_scenario_language().schema)
    definitions: dict[str, Any] = dict(get_scenario_language().definitions)
    short = {
        name: {key: each for key, each in part.items() if key != "properties"} for name, part in definitions.items()
    }
    parts = [_HEAD, "## A sequence\n", *fields(whole, "", short)]
    for title, name in (("A step", "step"), ("An object that is sent", "object"), ("What is expected", "expect")):
        parts.append(f"\n## {title}\n\n{definitions[name]['description']}\n")
        parts.extend(fields(definitions[name], "", short))
    return "".join(parts) + _BOUNDS


if __name__ == "__main__":
    sys.stdout.write(reference())
