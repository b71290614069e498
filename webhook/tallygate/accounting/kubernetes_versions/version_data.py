"""The versions of Kubernetes as data: the rules that differ, and those for which tallygate has one answer all the same.

`tallygate --version -o json` and docs/reference/versions.md show them.
"""

from typing import Any, NamedTuple

from tallygate.accounting.kubernetes_versions.switches import FEATURE_GATES, Switch
from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION, MODELLED_VERSIONS

_EXACT = "tallygate computes with whole numbers of any size in all versions, and reports amounts beyond int64"
_SAME = "the later rule applies to all versions"
_EARLIER = "the earlier rule applies to all versions"
_OFF = "not modelled: the feature gate is off by default"


class UnswitchedRule(NamedTuple):
    """A rule, the version since which Kubernetes has it, where it was read, and what tallygate does instead."""

    since: str
    effect: str
    source: str
    handling: str


UNSWITCHED_RULES = (
    UnswitchedRule(
        "1.37",
        "missing requests and limits at pod level are set after all mutating webhooks",
        "DefaultPodLevelResources in pkg/api/pod/util.go",
        _SAME,
    ),
    UnswitchedRule(
        "1.37",
        "a pod with an empty pod level has the QoS class of its containers",
        "ComputePodQOS in pkg/apis/core/v1/helper/qos/qos.go",
        _SAME,
    ),
    UnswitchedRule(
        "1.37.2",
        "a DeviceTaintRule without `deviceSelector` selects no device",
        "resourceslice/tracker/tracker.go; kubernetes#141648",
        _SAME,
    ),
    UnswitchedRule(
        "1.37",
        "expressions may have names in backquotes; `orValue` of a value that is no optional is an error; no empty "
        "text is behind the end of a text",
        "cel-go v0.29.2; 1.36 has v0.26.0",
        f"{_EARLIER}: of 6,620 recorded expressions 3 differ",
    ),
    UnswitchedRule(
        "1.38",
        "an attribute with an empty list is an error where an expression reads it; NaN is ordered, 2^63-1 is an "
        "integer, and types are compared with types alone",
        "cel-go v0.33.2; nameToAttributes in k8s.io/dynamic-resource-allocation cel/compile.go",
        f"{_EARLIER}: of 6,620 recorded expressions 60 differ, 30 of them by such a list",
    ),
    UnswitchedRule(
        "1.38",
        "`Value`, `MilliValue` and `ScaledValue` of a quantity saturate; sums of the scheduler do, too",
        "apimachinery pkg/api/resource/quantity.go, SaturatingAdd in framework/types.go; kubernetes#141305",
        _EXACT,
    ),
    UnswitchedRule(
        "1.38",
        "the text of a quantity of more than 10^18 is exact, as `1e21`; before the suffix was lost",
        "CanonicalizeBytes in apimachinery pkg/api/resource/quantity.go",
        "tallygate writes the exact number with the largest suffix, as `1000E`, in all versions",
    ),
    UnswitchedRule(
        "1.38",
        "negative fractions are rounded away from zero",
        "scaledValue in apimachinery pkg/api/resource/scale_int.go; kubernetes#138510",
        f"{_EARLIER}: API servers reject negative amounts of pods, nodes, claims and quotas, and a negative bound of a "
        "LimitRange is below every amount, however it is rounded",
    ),
    UnswitchedRule(
        "1.38",
        "a quantity keeps 29 significant digits",
        "decFromDigits in apimachinery pkg/api/resource/quantity.go",
        "tallygate keeps all digits in all versions",
    ),
    UnswitchedRule(
        "1.38",
        "LimitRanger leaves out what an update of a pod or of a volume claim does not change",
        "unchanged in plugin/pkg/admission/limitranger/admission.go",
        "LimitRanges are compared with new pods alone, in all versions",
    ),
    UnswitchedRule(
        "1.38",
        "of two classes with one extended resource the newest serves it, of one second the first by name; "
        "before the order of events decided",
        "deviceclass/extendedresourcecache/extendedresourcecache.go",
        _SAME,
    ),
    UnswitchedRule(
        "1.38",
        "the version of a device that is no semantic version is an error only where it is used",
        "attrValue in k8s.io/dynamic-resource-allocation api/conversion.go; kubernetes#142964",
        f"{_EARLIER}: such a version has a number beyond uint64, which newer API servers reject",
    ),
    UnswitchedRule(
        "1.38",
        "a claim with a negative consumed capacity ends each allocation",
        "consumedCapacityError in plugins/dynamicresources/allocateddevices.go",
        "not modelled: no API server stores one",
    ),
    UnswitchedRule(
        "1.38",
        "API servers reject claims, templates and slices with a name of more than one slash, and claims and templates "
        "whose requests for capacity are negative, more than 32, or have an invalid name",
        "validateQualifiedName and validateCapacityRequirements in pkg/apis/resource/validation/validation.go; "
        "kubernetes#141644",
        "names and amounts in these objects are not validated, in all versions",
    ),
    UnswitchedRule(
        "1.38",
        "the free capacity of a storage class is compared exactly; before in whole bytes",
        "capacitySufficient in plugins/volumebinding/binder.go",
        f"{_EARLIER}: they differ by less than one byte",
    ),
    UnswitchedRule(
        "1.38",
        "`nominatedNodeName` of pods in a scheduling group decides their placement",
        "change log of 1.38.0-alpha.2, kubernetes#139472; its code was not compared",
        _OFF,
    ),
    UnswitchedRule(
        "1.37",
        "`partitionTypeAttribute`, `nodeAllocatableResources`, `skipNodeOperations` and derived attributes of devices",
        "k8s.io/api resource/v1/types.go",
        _OFF,
    ),
)
"""The rules, by version."""


def describe_versions() -> dict[str, Any]:
    """Return the modelled versions, the rules in which they differ, and the feature gates with their defaults."""
    preliminary = {version.minor for version in MODELLED_VERSIONS if version.is_preliminary}
    return {
        "modelled": list(map(str, MODELLED_VERSIONS)),
        "preliminary": [str(version) for version in MODELLED_VERSIONS if version.is_preliminary],
        "default": str(DEFAULT_VERSION),
        "switches": [
            {
                "name": switch.name,
                "since": f"1.{switch.value.since}",
                "area": switch.value.area.value,
                "effect": switch.value.effect,
                "source": switch.value.source,
                "featureGate": switch.value.gate,
                "preliminary": switch.value.since in preliminary,
            }
            for switch in Switch
        ],
        "notSwitched": [rule._asdict() for rule in UNSWITCHED_RULES],
        "featureGates": [
            {
                "name": gate.name,
                "onByDefault": {str(version): gate.is_on(version.minor) for version in MODELLED_VERSIONS},
                "effect": gate.effect,
            }
            for gate in FEATURE_GATES
        ],
    }
