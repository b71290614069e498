"""The minor versions of kube-scheduler that are modelled, and the rules in which they differ.

Each rule is that of the default configuration: it follows the code of the version and the defaults of its feature
gates (pkg/features/kube_features.go).
"""

import re
from dataclasses import dataclass

_GIT_VERSION = re.compile(r"v?1\.(\d+)(?:[.+-].*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SchedulerVersion:
    """A minor version, as 37 for 1.37, and its rules.

    `reports_claims`: the message of a pod that cannot run reports that the pod has no resource claims to deallocate
    (PostFilter in plugins/dynamicresources). `reports_preemption`: the message of a pod names the node on which the pod
    preempts others (Preempt in framework/preemption/preemption.go). `requires_installed_driver`: a node needs the CSI
    drivers of a pod's volumes that are marked so (VolumeLimitScaling). `drops_namespace_selectors`: a namespace
    selector of the incoming pod stands for the namespaces that it matches, and for nothing else.
    `counts_one_violated_budget`: a victim counts under no further budget after one that it violates.
    `fixes_start_times`: a victim that has not started has one start time during an attempt. `sums_resizes`: a pod that
    is being resized counts as in `resized_requests`. `allocates_as_37`: devices are allocated by the rules of 1.37.
    `applies_taint_rules`: devices have the taints of DeviceTaintRules, too (DRADeviceTaintRules).
    """

    minor: int
    reports_claims: bool = False
    reports_preemption: bool = False
    requires_installed_driver: bool = False
    drops_namespace_selectors: bool = False
    counts_one_violated_budget: bool = False
    fixes_start_times: bool = False
    sums_resizes: bool = False
    allocates_as_37: bool = False
    applies_taint_rules: bool = False

    def __str__(self) -> str:
        return f"1.{self.minor}"


MODELLED_VERSIONS = (
    SchedulerVersion(36, reports_claims=True),
    SchedulerVersion(
        37,
        reports_preemption=True,
        requires_installed_driver=True,
        drops_namespace_selectors=True,
        counts_one_violated_budget=True,
        fixes_start_times=True,
        sums_resizes=True,
        allocates_as_37=True,
        applies_taint_rules=True,
    ),
)
"""The modelled versions in ascending order."""

NEWEST_VERSION = MODELLED_VERSIONS[-1]
"""The version that stands for a cluster whose own version is not known."""


def parse_minor(git_version: str) -> int | None:
    """Return the minor version of a `gitVersion`, as 37 for `v1.37.2-gke.1`; None if the text has another form."""
    match = _GIT_VERSION.fullmatch(git_version)
    return int(match[1]) if match else None


def select_version(minor: int | None) -> SchedulerVersion:
    """Return the modelled version that is nearest to a minor version, the newest one for None."""
    if minor is None:
        return NEWEST_VERSION
    return min(MODELLED_VERSIONS, key=lambda version: abs(version.minor - minor))
