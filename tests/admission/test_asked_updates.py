"""The gate allows each update that it is not asked about, without a finding and without a charge."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.request import Phase
from tallygate.admission.webhook_configuration import ServiceTarget, create_webhook_configurations
from tallygate.policy.parse import parse
from tests.admission.conditions import list_asked
from tests.agreement.answers import write_stream
from tests.agreement.asked import POLICIES, draw_objects
from tests.effort import examples
from tests.gate.gate_fixture import GateFixture, response

_OF_POLICY = re.compile(r"\(TG\d{3}, (rule|cap|implied request) ")
_LABELS = st.fixed_dictionaries(
    {}, optional={"tier": st.sampled_from(["gold", "silver"]), "team": st.sampled_from(["vision", "speech"])}
)
_KINDS = ("Pod", "Deployment", "CronJob", "PodTemplate", "LimitRange", "ResourceQuota")


@pytest.mark.parametrize("kind", _KINDS)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(POLICIES, st.data())
def test_the_gate_says_nothing_about_an_update_that_it_is_not_asked(
    kind: str, policies: tuple[dict[str, Any], ...], data: st.DataObject
) -> None:
    """Update an object to another one, neither of which passes the condition."""
    text = write_stream(policies)
    parsed = parse([("policies.yaml", text.encode())])
    assume(parsed.is_usable)
    objects = draw_objects(kind)
    old, new = (
        {**drawn, "metadata": {**drawn["metadata"], "uid": "u"}} for drawn in data.draw(st.tuples(objects, objects))
    )
    group = new["apiVersion"].rpartition("/")[0]
    request = {"kind": {"group": group, "kind": kind}, "namespace": "team-a", "operation": "UPDATE"}
    phase, labels = data.draw(st.tuples(st.sampled_from(Phase), _LABELS))
    configurations = create_webhook_configurations(ServiceTarget(), conditions=MatchConditions(parsed.policies))
    asked = {**request, "resource": BUILT_IN_TARGETS[group, kind].plural, "object": new, "oldObject": old}
    webhooks = list_asked(configurations[list(Phase).index(phase)], asked)
    called = [webhook.is_called(asked, labels | {"kubernetes.io/metadata.name": "team-a"}) for webhook in webhooks]
    assert sum(called) <= 1
    if any(called):
        return
    gate = GateFixture(text, labels={"team-a": labels})
    answer = response(gate.admit(new, phase, oldObject=old, **request))
    assert answer["allowed"]
    assert "patch" not in answer
    assert not _OF_POLICY.search(" ".join(answer.get("warnings", ())))
    assert not any(gate.read_reserved(cap.name) for cap in parsed.policies.caps)
