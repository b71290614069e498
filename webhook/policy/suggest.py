"""Did you mean: the nearest known word to one that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches

WELL_KNOWN = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/mig-2g.10gb",
    "nvidia.com/mig-3g.20gb",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "google.com/tpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "vpc.amazonaws.com/efa",
    "rdma/hca",
    "smarter-devices/fuse",
    "devices.kubevirt.io/kvm",
)
"""Resource names that device plugins register; what is one slip away from one of them was probably meant."""

_LONGEST = 100


def nearest(word: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """The known word most like this one, or none that is like enough. Long words are compared by their beginning."""
    close = get_close_matches(word[:_LONGEST].lower(), by_lower := {each.lower(): each for each in known}, 1, cutoff)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing."""
    close = nearest(word, known)
    return f'; did you mean "{close}"?' if close else ""


def resource_meant(name: str, known: Iterable[str] = WELL_KNOWN) -> str | None:
    """The resource that a name is probably a slip for: its last part alone (`gpu`), or nearly the whole name."""
    names = tuple(known)
    if name in names:
        return None
    if "/" not in name:
        domainless = next((each for each in names if each.rpartition("/")[2] == name.lower().removesuffix("s")), None)
        if domainless is not None:
            return domainless
    return nearest(name, names, cutoff=0.83 if "/" in name else 0.7)
