"""What a pod says of other pods, as far as it must hold, read once.

Source: PreFilter in plugins/podtopologyspread/filtering.go and plugins/interpodaffinity/filtering.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from webhook.accounting.cluster.inter_pod_terms import AffinityTerm, get_required_terms, parse_terms
from webhook.accounting.fit.constraints import Constraint, hard_constraints
from webhook.accounting.selectors import SelectorError, join_errors
from webhook.objects.scheduling import Affinity, PodAffinity, SchedulingPodSpec

_GETTING = (
    'running PreFilter plugin "PodTopologySpread": get constraints from pod: '
    "obtaining pod's hard topology spread constraints"
)


class Company(NamedTuple):
    """Affinity and anti-affinity to pods, and how the pod's like are spread.

    Where some of it is no selector, nothing of it is looked at: `refusal` says then why the pod is placed nowhere, or
    `failure` what ends the attempt. The API server refuses such a pod.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[Constraint, ...] = ()
    refusal: str = ""
    failure: str = ""


def company(spec: SchedulingPodSpec, namespace: str, labels: Mapping[str, str]) -> Company:
    """What a pod with these labels says of others. Its keys of labels are in the selectors of its terms already."""
    try:
        spread = hard_constraints(spec, labels)
    except SelectorError as error:
        return Company(failure=f"{_GETTING}: {error}")
    affinity = spec.affinity or Affinity()
    near, near_fault = _read(affinity.pod_affinity, namespace)
    away, away_fault = _read(affinity.pod_anti_affinity, namespace)
    faults = [f"requiredAffinityTerms: {near_fault}"] if near_fault else []
    faults += [f"requiredAntiAffinityTerms: {away_fault}"] if away_fault else []
    return Company(refusal=f"parsing pod: {join_errors(faults)}") if faults else Company(near, away, spread)


def _read(affinity: PodAffinity | None, namespace: str) -> tuple[tuple[AffinityTerm, ...], str]:
    """The terms that must hold, and what is wrong with the first of them that is no term."""
    try:
        return parse_terms(get_required_terms(affinity), namespace), ""
    except SelectorError as error:
        return (), str(error)
