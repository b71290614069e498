"""The table of switches: the rules of Kubernetes that differ by version, each with the version since which it applies.

`FEATURE_GATES` are the gates on which predictions depend, with their defaults (pkg/features/kube_features.go).

A rule says what the later version does. Files without a repository are those of kubernetes/kubernetes; `structured`,
`resourceslice` and `deviceclass` are folders of k8s.io/dynamic-resource-allocation, `plugins`, `framework` and
`preemption` those of pkg/scheduler.
"""

from enum import Enum, StrEnum
from typing import NamedTuple


class Area(StrEnum):
    """The part of Kubernetes that a rule belongs to."""

    ADMISSION = "admission"
    ALLOCATOR = "allocator"
    MESSAGES = "messages"
    QUOTA = "quota"
    SCHEDULER = "scheduler"


class SwitchFacts(NamedTuple):
    """A rule: the minor version since which it applies, its area, what it changes, and where it was read.

    `gate` is the feature gate that turns it on by default, empty without one.
    """

    since: int
    area: Area
    effect: str
    source: str
    gate: str = ""


class Switch(Enum):
    """The rules, by the version since which they apply."""

    OMITS_CLAIM_NOTE = SwitchFacts(
        37,
        Area.MESSAGES,
        "the message of a pod that cannot run has no `no new claims to deallocate, ` before `preemption:`",
        "PostFilter in plugins/dynamicresources/dynamicresources.go",
    )
    REPORTS_PREEMPTION = SwitchFacts(
        37,
        Area.MESSAGES,
        "the message of a pod that preempts names the node and the number of victims",
        "Preempt in preemption/preemption.go",
    )
    NAMES_DEVICE_IN_ERRORS = SwitchFacts(
        37,
        Area.MESSAGES,
        "the error of an expression names the device, and has a hint about missing keys",
        "selectorsMatch in structured/internal/incubating/allocator_incubating.go",
    )
    LIMITS_DEVICES_BY_REQUEST = SwitchFacts(
        37,
        Area.MESSAGES,
        "the error of a claim for too many devices names the request that exceeds the limit",
        "Allocate in structured/internal/incubating/allocator_incubating.go",
    )
    REQUIRES_INSTALLED_DRIVER = SwitchFacts(
        37,
        Area.SCHEDULER,
        "a node needs the CSI drivers of a pod's volumes that have `preventPodSchedulingIfMissing`",
        "plugins/nodevolumelimits/csi.go; KEP-5030",
        gate="VolumeLimitScaling",
    )
    DROPS_NAMESPACE_SELECTORS = SwitchFacts(
        37,
        Area.SCHEDULER,
        "a namespace selector of the incoming pod stands for the namespaces that it matches, and for nothing else",
        "mergeAffinityTermNamespacesIfNotEmpty in plugins/interpodaffinity/plugin.go",
    )
    COUNTS_ONE_VIOLATED_BUDGET = SwitchFacts(
        37,
        Area.SCHEDULER,
        "a victim counts under no further disruption budget after one that it violates",
        "FilterVictimsWithPDBViolation in preemption/util.go",
    )
    FIXES_START_TIMES = SwitchFacts(
        37,
        Area.SCHEDULER,
        "a victim that has not started has one start time during an attempt",
        "NewVictim in preemption/types.go",
    )
    SUMS_RESIZES = SwitchFacts(
        37,
        Area.SCHEDULER,
        "a pod that is being resized counts with the largest of three sums: requested, allocated and actual amounts",
        "AggregateContainerRequests in component-helpers resource/helpers.go",
    )
    PLACES_POD_GROUPS = SwitchFacts(
        37,
        Area.SCHEDULER,
        "where the gate GenericWorkload is on (it is off by default), the pods of a PodGroup of v1beta1 are tried in "
        "one cycle, and none is bound without the quorum",
        "schedule_one_podgroup.go in pkg/scheduler; plugins/gangscheduling/gangscheduling.go; KEP-4671",
    )
    APPLIES_TAINT_RULES = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "devices have the taints of DeviceTaintRules, too",
        "resourceslice/tracker/tracker.go; KEP-5055",
        gate="DRADeviceTaintRules",
    )
    READS_LIST_ATTRIBUTES = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "an attribute with a list is no error for the expressions about its device",
        "cel/compile.go in k8s.io/dynamic-resource-allocation",
    )
    REJECTS_UNREADABLE_CAPACITY = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "a request for capacity that int64 cannot represent ends the allocation on every node",
        "calculateConsumedCapacity in structured/internal/incubating/consumable_capacity.go",
    )
    COMPARES_EVERY_DISTINCT_VALUE = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "`distinctAttribute` compares a device with all devices of a request, and not only with the last one",
        "structured/internal/incubating/constraint.go",
    )
    SEPARATES_COUNTERS_OF_DRIVERS = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "pools of one name that belong to two drivers have their own shared counters",
        "checkAvailableCounters in structured/internal/incubating/allocator_incubating.go",
    )
    PLACES_COUNTER_SLICES = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "slices of shared counters have nodes like any other slice",
        "GatherPools in structured/internal/incubating/pools_incubating.go",
    )
    LEAVES_OUT_COMPATIBILITY_GROUPS = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "slices with `compatibilityGroups` are not read, so that their pool is incomplete (the gate "
        "DRADeviceCompatibilityGroups is off)",
        "GatherPools in structured/internal/incubating/pools_incubating.go",
    )
    NEEDS_EVERY_DEVICE_OF_ALL = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "a request for all devices also needs those whose capacity other claims have used up, and fails then",
        "validateDeviceRequest in structured/internal/incubating/allocator_incubating.go",
    )
    COUNTS_SHARES_WITHOUT_CAPACITY = SwitchFacts(
        37,
        Area.ALLOCATOR,
        "a share without an amount of capacity counts as one: a further share does not consume counters again",
        "deviceCapacityInUse in structured/internal/incubating/allocator_incubating.go",
    )
    CHANGES_POD_GROUPS = SwitchFacts(
        38,
        Area.SCHEDULER,
        "the cycle of a PodGroup and its preemption have other rules, which are not modelled",
        "schedule_one_podgroup.go in pkg/scheduler; framework/preemption/podgrouppreemption.go",
    )
    GROUPS_OWNED_JOBS = SwitchFacts(
        38,
        Area.SCHEDULER,
        "where the gate WorkloadWithJob is on, a Job that another controller owns has a PodGroup by `spec.scheduling`, "
        "and annotations name a template for it; before, it has none unless its owner names the template",
        "getManagementMode in pkg/controller/job/job_scheduling_manager.go",
    )
    ROUNDS_FRACTIONS_OF_CAPACITY = SwitchFacts(
        38,
        Area.ALLOCATOR,
        "ranges of valid amounts of capacity may have fractions, and amounts are rounded in thousandths. 1.37 has the "
        "gate, too, which needs `--min-compatibility-version=1.37` there",
        "roundUpRange in structured/internal/stable/consumable_capacity.go; KEP-5075",
        gate="DRAFractionalCapacityRange",
    )
    QUALIFIES_CAPACITY_NAMES = SwitchFacts(
        38,
        Area.ALLOCATOR,
        "a capacity may be requested with and without the driver's name before it, and its amounts add up under both; "
        "a request by both names is an error",
        "resolveCapacityRequests in structured/internal/stable/consumable_capacity.go; kubernetes#142202",
    )
    REJECTS_NEGATIVE_CAPACITY = SwitchFacts(
        38,
        Area.ALLOCATOR,
        "a negative request for capacity ends the allocation, also where a policy would round it up",
        "calculateConsumedCapacity in structured/internal/stable/consumable_capacity.go",
    )
    KEEPS_SHARED_DEVICES_SHARED = SwitchFacts(
        38,
        Area.ALLOCATOR,
        "a device of which a claim has a share is not allocated to one claim alone after its driver stopped sharing it",
        "allocateDevice in structured/internal/stable/allocator_stable.go; kubernetes#140798",
    )
    SKIPS_NODES_OF_UNUSABLE_POOLS = SwitchFacts(
        38,
        Area.ALLOCATOR,
        "a request for all devices leaves out the nodes of a pool that is incomplete or invalid, and fails on no other",
        "validateDeviceRequest in structured/internal/stable/allocator_stable.go; kubernetes#141898",
    )
    IGNORES_BUILDS_OF_VERSIONS = SwitchFacts(
        38,
        Area.ALLOCATOR,
        "constraints compare versions without their build metadata",
        "matchAttributeConstraint in structured/internal/stable/allocator_stable.go",
    )
    MATCHES_EMPTY_SPREAD_SELECTORS = SwitchFacts(
        38,
        Area.SCHEDULER,
        "a topology spread constraint with an empty label selector counts all pods of the namespace, and not none",
        "countPodsMatchSelector in plugins/podtopologyspread/common.go; kubernetes#141340",
    )
    MATCHES_EMPTY_BUDGET_SELECTORS = SwitchFacts(
        38,
        Area.SCHEDULER,
        "preemption respects a disruption budget with an empty selector, and budgets that cover pods without labels",
        "FilterVictimsWithPDBViolation in preemption/util.go; kubernetes#141785",
    )
    ORDERS_EQUAL_VICTIMS = SwitchFacts(
        38,
        Area.SCHEDULER,
        "of victims of one priority and start time the one with the lower UID counts as more important",
        "MoreImportantVictim in preemption/util.go",
    )
    SCORES_POD_LEVEL = SwitchFacts(
        38,
        Area.SCHEDULER,
        "the score of NodeResourcesFit reads requests at pod level",
        "getScorer in plugins/noderesources/fit.go",
    )
    COMPARES_RATIOS_EXACTLY = SwitchFacts(
        38,
        Area.ADMISSION,
        "LimitRanger compares the limit with the request times the ratio, exactly; before, it divides floating point "
        "numbers, and rejects a limit of 2007m for a request of 1 under a ratio of 2007m",
        "exceedsAllowed in plugin/pkg/admission/limitranger/admission.go",
    )
    OMITS_PARTIAL_LIMITS = SwitchFacts(
        38,
        Area.QUOTA,
        "limits of cpu or memory that one container lacks, or has as 0, are no limit of the pod: a quota charges none, "
        "and the pod level gets none by default",
        "omitPartiallySetCPUMemLimits in component-helpers resource/helpers.go; kubernetes#141014",
    )
    REPORTS_NO_VICTIMS = SwitchFacts(
        38,
        Area.MESSAGES,
        "a node on which no victim is needed after all is one without victims, and no error of the scheduler",
        "DryRunPreemption in preemption/preemption.go",
    )


_FIRST = 36
"""The oldest modelled version."""


class FeatureGate(NamedTuple):
    """A gate: the first modelled version in which it is on by default, None if it is off in all, and what follows."""

    name: str
    on_since: int | None
    effect: str

    def is_on(self, minor: int) -> bool:
        """Return whether the gate is on by default in a minor version."""
        return self.on_since is not None and minor >= self.on_since


FEATURE_GATES = (
    FeatureGate("DRAAdminAccess", _FIRST, "requests with admin access"),
    FeatureGate("DRAConsumableCapacity", _FIRST, "devices that several claims share"),
    FeatureGate("DRADeviceBindingConditions", _FIRST, "devices that are ready some time after the allocation"),
    FeatureGate("DRADeviceTaints", _FIRST, "taints that drivers publish"),
    FeatureGate("DRAExtendedResource", _FIRST, "extended resources that a DeviceClass backs"),
    FeatureGate("DRAPartitionableDevices", _FIRST, "shared counters"),
    FeatureGate("DRAPrioritizedList", _FIRST, "`firstAvailable`"),
    FeatureGate("InPlacePodLevelResourcesVerticalScaling", _FIRST, "resizes at pod level"),
    FeatureGate("NodeDeclaredFeatures", _FIRST, "features that nodes declare"),
    FeatureGate("PodLevelResources", _FIRST, "requests at pod level"),
    FeatureGate("DRADeviceTaintRules", 37, "DeviceTaintRules"),
    FeatureGate("PodLevelResourcesFixDefaulting", 37, "missing requests at pod level are set after mutating webhooks"),
    FeatureGate("StorageCapacityScoring", 37, "not modelled: a score for the free capacity of a storage class"),
    FeatureGate("VolumeLimitScaling", 37, "nodes need the CSI drivers of volumes"),
    FeatureGate("DRAFractionalCapacityRange", 38, "fractions in the valid amounts of a capacity"),
    FeatureGate("CompositePodGroup", None, "not modelled: groups of scheduling groups"),
    FeatureGate("DRADerivedAttributes", None, "not modelled: attributes that a request computes"),
    FeatureGate("DRADeviceCompatibilityGroups", None, "slices with `compatibilityGroups` are not read"),
    FeatureGate("DRAListTypeAttributes", None, "not modelled: attributes with lists in constraints"),
    FeatureGate("DRANodeAllocatableResources", None, "not modelled: `nodeAllocatableResources` of devices"),
    FeatureGate("DRAOptionalNodeOperations", None, "not modelled: `skipNodeOperations` of slices"),
    FeatureGate("DRAPartitionableDevicesType", None, "not modelled: `partitionTypeAttribute` of slices"),
    FeatureGate(
        "DRAWorkloadResourceClaims",
        None,
        "claims of a PodGroup; `unknown` for those from templates where it is not known to be on",
    ),
    FeatureGate(
        "GenericWorkload", None, "pods of a PodGroup are placed together; `unknown` where it is not known to be on"
    ),
    FeatureGate("InPlacePodVerticalScalingSchedulerPreemption", None, "not modelled: preemption for a resize"),
    FeatureGate("TopologyAwareWorkloadScheduling", None, "not modelled: placements of scheduling groups"),
    FeatureGate(
        "WorkloadWithJob", None, "a PodGroup for each Job; `unknown` for `scheduling` where it is not known to be on"
    ),
)
"""The gates, those that are on in the oldest modelled version first."""
