"""The sources of caps besides their policies and the time: values that the objects of a cluster give them."""

from collections.abc import Mapping
from typing import NamedTuple

from tallygate.accounting.claim_charge import NO_CLASSES
from tallygate.admission.capacity_limits import NO_CAPACITIES, CapCapacities
from tallygate.policy.limit_annotations import NO_LIMIT_ANNOTATIONS, LimitAnnotations


class CapSources(NamedTuple):
    """The values of one moment; each is the same object until it changes.

    `resources_by_class` has the extended resource of each DeviceClass, empty if it has none: it decides what a cap
    counts. `annotations` are those of namespaces that set limits, `capacities` those of which caps name percentages;
    `capacity_problem` is why one is missing.
    """

    resources_by_class: Mapping[str, str] = NO_CLASSES
    annotations: LimitAnnotations = NO_LIMIT_ANNOTATIONS
    capacities: CapCapacities = NO_CAPACITIES
    capacity_problem: str = "no nodes are known here"


NO_CAP_SOURCES = CapSources()
