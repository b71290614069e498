"""A pod's constraints on how its like are spread, those that must hold, read once.

Source: filterTopologySpreadConstraints in plugins/podtopologyspread/common.go, v1.36. The constraints that the
scheduler makes up for pods without any are about scores alone.
"""

from collections.abc import Mapping
from typing import NamedTuple

from webhook.accounting.selectors import Selector, create_selector, parse_selector
from webhook.objects.scheduling import SchedulingPodSpec, TopologySpreadConstraint


class Constraint(NamedTuple):
    """Among the pods that it selects, no domain may have more than `most` more than the one that has fewest.

    A domain is what has one value of the topology key; where there are fewer than `domains`, the fewest is zero.
    `heeds_affinity` and `heeds_taints` leave out the nodes on which the pod could not be for that reason.
    """

    key: str
    selector: Selector
    most: int
    domains: int
    heeds_affinity: bool
    heeds_taints: bool


def hard_constraints(spec: SchedulingPodSpec, labels: Mapping[str, str]) -> tuple[Constraint, ...]:
    """The constraints that must hold, of a pod with these labels.

    Raises:
        SelectorError: a requirement of a selector is none.
    """
    written = spec.topology_spread_constraints or ()
    return tuple(_constraint(each, labels) for each in written if each.when_unsatisfiable == "DoNotSchedule")


def _constraint(written: TopologySpreadConstraint, labels: Mapping[str, str]) -> Constraint:
    own = {key: labels[key] for key in written.match_label_keys or () if key in labels}
    return Constraint(
        written.topology_key,
        parse_selector(written.label_selector).intersect(create_selector(own)),
        written.max_skew,
        1 if written.min_domains is None else written.min_domains,
        (written.node_affinity_policy or "Honor") == "Honor",
        (written.node_taints_policy or "Ignore") == "Honor",
    )
