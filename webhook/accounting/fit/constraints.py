"""A pod's constraints on how its like are spread, those that must hold, read once.

Source: filterTopologySpreadConstraints in plugins/podtopologyspread/common.go, v1.36. The constraints that the
scheduler makes up for pods without any are about scores alone.
"""

from collections.abc import Mapping
from typing import NamedTuple

from webhook.accounting.selectors import Selector, create_selector, parse_selector
from webhook.objects.scheduling import SchedulingPodSpec, TopologySpreadConstraint


class HardSpreadConstraint(NamedTuple):
    """Among the pods that it selects, no domain may have more than `most` more than the one that has fewest.

    A domain is what has one value of the topology key; where there are fewer than `domains`, the fewest is zero.
    `heeds_affinity` and `heeds_taints` leave out the nodes on which the pod could not be for that reason.
    """

    topology_key: str
    selector: Selector
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


def read_spread_constraints(spec: SchedulingPodSpec, labels: Mapping[str, str]) -> tuple[HardSpreadConstraint, ...]:
    """The constraints that must hold, of a pod with these labels.

    Raises:
        SelectorError: a requirement of a selector is none.
    """
    constraints = spec.topology_spread_constraints or ()
    return tuple(
        _read_spread_constraint(each, labels) for each in constraints if each.when_unsatisfiable == "DoNotSchedule"
    )


def _read_spread_constraint(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> HardSpreadConstraint:
    own_labels = {key: labels[key] for key in constraint.match_label_keys or () if key in labels}
    return HardSpreadConstraint(
        constraint.topology_key,
        parse_selector(constraint.label_selector).intersect(create_selector(own_labels)),
        constraint.max_skew,
        1 if constraint.min_domains is None else constraint.min_domains,
        (constraint.node_affinity_policy or "Honor") == "Honor",
        (constraint.node_taints_policy or "Ignore") == "Honor",
    )
