"""What a pod says of other pods, as far as it must hold, read once.

Source: PreFilter in plugins/podtopologyspread/filtering.go and plugins/interpodaffinity/filtering.go, v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from webhook.accounting.cluster.terms import Term, required_terms, terms
from webhook.accounting.fit.constraints import Constraint, hard_constraints
from webhook.accounting.selectors import SelectorError
from webhook.objects.scheduling import Affinity, PlacedSpec


class Company(NamedTuple):
    """Affinity and anti-affinity to pods, and how the pod's like are spread.

    `fault` says what of it is no selector, so that it is not looked at; the API server refuses such a pod.
    """

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    spread: tuple[Constraint, ...] = ()
    fault: str = ""


def company(spec: PlacedSpec, namespace: str, labels: Mapping[str, str]) -> Company:
    """What a pod with these labels says of others. Its keys of labels are in the selectors of its terms already."""
    affinity = spec.affinity or Affinity()
    near, away = required_terms(affinity.pod_affinity), required_terms(affinity.pod_anti_affinity)
    doing = 'running PreFilter plugin "PodTopologySpread": get constraints from pod'
    try:
        spread = hard_constraints(spec, labels)
        doing = "parsing pod"
        return Company(terms(near, namespace), terms(away, namespace), spread)
    except SelectorError as error:
        return Company(fault=f"{doing}: {error}")
