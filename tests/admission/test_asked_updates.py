"""The gate allows each update that it is not asked about, without a finding and without a charge."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tallygate.admission.match_conditions import MatchConditions, Part
from tallygate.admission.request import Phase
from tallygate.policy.parse import parse
from tests.admission.conditions import evaluate_condition
from tests.agreement.answers import write_stream
from tests.agreement.asked import POLICIES, draw_objects
from tests.effort import examples
from tests.gate.gate_fixture import GateFixture, response

_OF_POLICY = re.compile(r"\(TG\d{3}, (rule|cap|implied request) ")
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
    phase = data.draw(st.sampled_from(Phase))
    expression = MatchConditions(parsed.policies).create(phase, Part.NAMESPACED, ("object", "oldObject"))
    is_asked, _ = evaluate_condition(expression, {**request, "object": new, "oldObject": old})
    if is_asked:
        return
    gate = GateFixture(text, labels={"team-a": {"tier": "gold"}})
    answer = response(gate.admit(new, phase, oldObject=old, **request))
    assert answer["allowed"]
    assert "patch" not in answer
    assert not _OF_POLICY.search(" ".join(answer.get("warnings", ())))
    assert not any(gate.read_reserved(cap.name) for cap in parsed.policies.caps)
