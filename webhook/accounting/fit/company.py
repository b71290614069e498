"""What a pod says of other pods, as far as it must hold, read once.

Source: PreFilter in plugins/podtopologyspread/filtering.go and plugins/interpodaffinity/filtering.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from webhook.accounting.cluster.inter_pod_terms import AffinityTerm, get_required_terms, parse_terms
from webhook.accounting.fit.constraints import HardSpreadConstraint, read_spread_constraints
from webhook.accounting.selectors import SelectorError, join_errors
from webhook.objects.scheduling import Affinity, PodAffinity, SchedulingPodSpec

_CONSTRAINTS_ERROR = (
    'running PreFilter plugin "PodTopologySpread": get constraints from pod: '
    "obtaining pod's hard topology spread constraints"
)


class InterPodConstraints(NamedTuple):
    """Affinity and anti-affinity to pods, and how the pod's like are spread.

    Where some of it is no selector, nothing of it is looked at: `refusal` says then why the pod is placed nowhere, or
    `failure` what ends the attempt. The API server refuses such a pod.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[HardSpreadConstraint, ...] = ()
    pre_filter_message: str = ""
    pre_filter_error: str = ""


def read_inter_pod_constraints(
    spec: SchedulingPodSpec, namespace: str, labels: Mapping[str, str]
) -> InterPodConstraints:
    """What a pod with these labels says of others. Its keys of labels are in the selectors of its terms already."""
    try:
        spread = read_spread_constraints(spec, labels)
    except SelectorError as error:
        return InterPodConstraints(pre_filter_error=f"{_CONSTRAINTS_ERROR}: {error}")
    affinity = spec.affinity or Affinity()
    affinity_terms, affinity_error = _read_terms(affinity.pod_affinity, namespace)
    anti_affinity_terms, anti_affinity_error = _read_terms(affinity.pod_anti_affinity, namespace)
    errors = [f"requiredAffinityTerms: {affinity_error}"] if affinity_error else []
    errors += [f"requiredAntiAffinityTerms: {anti_affinity_error}"] if anti_affinity_error else []
    return (
        InterPodConstraints(pre_filter_message=f"parsing pod: {join_errors(errors)}")
        if errors
        else InterPodConstraints(affinity_terms, anti_affinity_terms, spread)
    )


def _read_terms(affinity: PodAffinity | None, namespace: str) -> tuple[tuple[AffinityTerm, ...], str]:
    """The terms that must hold, and what is wrong with the first of them that is no term."""
    try:
        return parse_terms(get_required_terms(affinity), namespace), ""
    except SelectorError as error:
        return (), str(error)
