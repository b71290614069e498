"""The gate would say nothing about workloads of other projects that it is not asked about.

`python -m tests.agreement.test_asked_workloads 5000` prints the questions of 5,000 drawn cases for
`tests/oracle/conditions`.
"""

import json
import re
import sys

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.request import Phase as AdmissionPhase
from tallygate.admission.webhook_configuration import ServiceTarget, create_webhook_configurations
from tallygate.admission.workload_resources import select_resources
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.parse import parse
from tallygate.policy.workload_kinds import WorkloadKind
from tests.admission.conditions import list_asked
from tests.agreement.answers import write_stream
from tests.agreement.asked_workloads import WORKLOAD_POLICIES, WORKLOADS
from tests.agreement.drawn import Object
from tests.effort import examples
from tests.gate.gate_fixture import GateFixture, response

_OF_POLICY = re.compile(r"\((?P<code>TG\d{3}), (rule|cap|implied request) ")
_LABELS = st.fixed_dictionaries(
    {}, optional={"tier": st.sampled_from(["gold", "silver"]), "team": st.sampled_from(["vision", "speech"])}
)
_RESOURCES = select_resources(
    KNOWN_KINDS, {(kind.group, kind.versions[0], kind.resource): kind.is_namespaced for kind in KNOWN_KINDS}
)
_DRAWN = st.tuples(WORKLOAD_POLICIES, WORKLOADS, st.none() | WORKLOADS, st.sampled_from(AdmissionPhase), _LABELS)
_Drawn = tuple[
    tuple[Object, ...], tuple[WorkloadKind, Object], tuple[WorkloadKind, Object] | None, AdmissionPhase, dict[str, str]
]


def _ask(drawn: _Drawn) -> tuple[Object, bool]:
    """Return the question about a drawn object, and whether the gate is asked."""
    policies, (kind, created), before, phase, labels = drawn
    parsed = parse([("policies.yaml", write_stream(policies).encode())])
    assume(parsed.is_usable)
    version = created["apiVersion"].partition("/")[2]
    request: Object = {
        "kind": {"group": kind.group, "version": version, "kind": kind.kind},
        "resource": kind.resource,
        "operation": "CREATE",
        "object": created,
    }
    if kind.is_namespaced:
        request["namespace"] = "team-a"
    if before is not None and before[0] is kind:
        request |= {"operation": "UPDATE", "oldObject": before[1]}
    conditions = MatchConditions(parsed.policies, gives_devices=False)
    configurations = create_webhook_configurations(
        ServiceTarget(), conditions=conditions, workload_resources=_RESOURCES
    )
    labels = {**labels, "kubernetes.io/metadata.name": "team-a"}
    webhooks = list(list_asked(configurations[list(AdmissionPhase).index(phase)], request))
    called = [webhook.is_called(request, labels) for webhook in webhooks]
    assert sum(called) <= 1, webhooks
    listed = [{"namespaceSelector": each.selector, "conditions": each.conditions} for each in webhooks]
    return {"webhooks": listed, "labels": labels, "request": request}, any(called)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(_DRAWN)
def test_the_gate_says_nothing_about_a_workload_that_it_is_not_asked(drawn: _Drawn) -> None:
    """Create or change an object of a kind of another project, in each form of pods."""
    question, is_asked = _ask(drawn)
    if is_asked:
        return
    policies, _, _, phase, labels = drawn
    gate = GateFixture(write_stream(policies), labels={"team-a": labels})
    request = {key: value for key, value in question["request"].items() if key not in {"object", "resource"}}
    request |= {"namespace": request.get("namespace", "")}
    answer = response(gate.admit({**question["request"]["object"]}, phase, **request))
    assert answer["allowed"], (question, answer)
    assert "patch" not in answer
    assert not _OF_POLICY.search(" ".join(answer.get("warnings", ()))), (question, answer)
    assert not any(gate.read_reserved(cap.name) for cap in gate.policies.caps if "groupBy" not in str(cap))


def write_questions(count: int) -> None:
    """Print the questions of this number of drawn cases."""

    @settings(max_examples=count, deadline=None, suppress_health_check=[*HealthCheck], phases=[Phase.generate])
    @given(_DRAWN)
    def write(drawn: _Drawn) -> None:
        sys.stdout.write(f"{json.dumps(_ask(drawn)[0])}\n")

    write()


if __name__ == "__main__":
    write_questions(int(sys.argv[1]))
