"""Drawn reviews without a gate: compiled admission policies on a real API server deny none that the gate allows.

The rules and the requests are those of `tests.backstop`, which compares the same with the code of an API server alone.
Here the API server completes the objects, and it alone decides which policy is asked about which request.
`--drawn-reviews` sets the number of reviews.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import pytest

from e2e.api import Object
from e2e.drawn_reviews import ADMIN_ACCESS_LABEL, DrawnReview, ReviewPreparation
from e2e.enforced_policies import PolicyMarker, find_denial, mark_policies, read_messages
from e2e.namespaces import create_named_namespaces, label
from e2e.ports import Cluster
from e2e.sent_users import grant_everything
from tests.backstop.comparison import compare, is_denied
from tests.backstop.drawn_questions import compile_documents, draw_requests

_SEED = 20261129
_NAMESPACES = ("team-a", "team-b", "other")
_LABELS: tuple[Mapping[str, str], ...] = (
    {"tier": "gold"},
    {"tier": "silver", "team": "vision"},
    {},
    {"team": "speech"},
)
"""The labels of the namespaces, by turns: of each, another one for the next rules."""
_REVIEWS_OF_RULES = 50
_DRAWN_RULES = 2  # drawn groups of one to three rules for the same reviews

_Item = TypeVar("_Item")


@pytest.fixture
def namespaces(cluster: Cluster) -> Iterator[Sequence[str]]:
    """Create the namespaces that drawn rules name, in which everybody may do everything."""
    with create_named_namespaces(cluster, _NAMESPACES), grant_everything(cluster):
        for namespace in _NAMESPACES:
            label(cluster, namespace, {ADMIN_ACCESS_LABEL: "true"})
        yield _NAMESPACES


def _rename_rules(groups: Sequence[Sequence[Object]]) -> list[Object]:
    """Return the rules of several groups, with unique names."""
    return [
        {**document, "metadata": {**document["metadata"], "name": f"rule-{number}"}}
        for number, document in enumerate(document for group in groups for document in group)
    ]


def test_no_drawn_review_is_denied_by_compiled_rules_alone(
    cluster: Cluster,
    namespaces: Sequence[str],
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    """Ask about each review; a finding of the gate that the compiled rules lack has a listed gap of its rule."""
    count = pytestconfig.getoption("--drawn-reviews")
    drawn = draw_requests(count * 3 // 2, _SEED)
    preparation = ReviewPreparation(cluster)
    prepared = filter(None, (preparation.prepare(request) for group in drawn for _, request in group.requests))
    reviews = [*itertools.islice(prepared, count)]
    assert len(reviews) == count
    groups = itertools.cycle(_rename_rules([each.policies for each in batch]) for batch in _split(drawn, _DRAWN_RULES))
    counts: Counter[str] = Counter()
    differences: list[object] = []
    with mark_policies(cluster) as marker:
        for number, batch in enumerate(_split(reviews, _REVIEWS_OF_RULES)):
            labels = {
                namespace: {**_LABELS[(number + place) % len(_LABELS)], ADMIN_ACCESS_LABEL: "true"}
                for place, namespace in enumerate(namespaces)
            }
            differences += _list_differences(marker, next(groups), labels, batch, counts)
    record_property("reviews", str(counts))
    assert differences == []
    assert counts["asked"] == count
    assert counts["denied"] > count // 20
    assert counts["warned"] > count // 20
    assert counts["allowed"] > count // 4
    assert counts["updated"] > count // 10


def _list_differences(
    marker: PolicyMarker,
    rules: Sequence[Object],
    labels: Mapping[str, Mapping[str, str]],
    reviews: Sequence[DrawnReview],
    counts: Counter[str],
) -> Iterator[object]:
    """Yield each unexplained difference between the gate and the API server, which enforces compiled rules."""
    compiled = compile_documents(rules)
    assert compiled
    policies, objects, gaps = compiled
    stored = marker.enforce(objects, labels)
    for review in reviews:
        answer, request = review.send(marker.cluster), review.request
        denial, messages = find_denial(answer), read_messages(answer)
        assert answer.is_done or denial, answer.rejection
        of_namespace = stored[request["namespace"]]
        is_denied_by_gate = is_denied(policies, of_namespace, request)
        found = [*compare(policies, gaps, of_namespace, request, messages)]
        if denial and not is_denied_by_gate:
            found.append("denied by the compiled policies alone")
        if found:
            yield found, rules, of_namespace, request, messages
        counts["asked"] += 1
        counts["denied" if denial else "warned" if messages else "allowed"] += 1
        counts["looser"] += is_denied_by_gate and not denial
        counts["updated"] += review.method == "PUT"


def _split(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (items[first : first + size] for first in range(0, len(items), size))
