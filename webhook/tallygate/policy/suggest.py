"""Suggestions: the known word that is nearest to an unknown one."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

WELL_KNOWN_RESOURCES = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/gpucores",
    "nvidia.com/gpumem",
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
    "aws.amazon.com/neurondevice",
    "vpc.amazonaws.com/efa",
    "rdma/hca",
    "smarter-devices/fuse",
    "devices.kubevirt.io/kvm",
)
"""Resource names that device plugins register; a name that nearly equals one of them is probably a misspelling."""

_MAX_COMPARED_LENGTH = 100


def find_nearest(word: str, candidates: Iterable[str], cutoff: float = 0.75) -> str | None:
    """Return the known word that is most similar to this one, or None below the cutoff.

    Words are compared by their first 100 characters.
    """
    matches = get_close_matches(
        word[:_MAX_COMPARED_LENGTH].lower(),
        by_lower := {candidate.lower(): candidate for candidate in candidates},
        1,
        cutoff,
    )
    return by_lower[matches[0]] if matches else None


def format_suggestion(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean "x"?`, or an empty text."""
    suggestion = find_nearest(word, candidates)
    return f'; did you mean "{suggestion}"?' if suggestion else ""


def format_resource_suggestion(name: str, prefix: str = "") -> str:
    """Return `; did you mean "x"?` with a prefix before the resource, or an empty text."""
    suggestion = suggest_resource(name)
    return f'; did you mean "{prefix}{suggestion}"?' if suggestion else ""


def suggest_resource(name: str, candidates: Iterable[str] = WELL_KNOWN_RESOURCES) -> str | None:
    """Return the resource whose misspelling a name probably is: by its last part (`gpu`), or by the whole name."""
    names = tuple(candidates)
    if name in names:
        return None
    if "/" not in name:
        same_last_part = next(
            (candidate for candidate in names if candidate.rpartition("/")[2] == name.lower().removesuffix("s")), None
        )
        if same_last_part is not None:
            return same_last_part
    return find_nearest(name, names, cutoff=0.83 if "/" in name else 0.7)


def suggest_well_known(name: str) -> str | None:
    """Return the well-known resource whose misspelling a name probably is, or None.

    Names that differ by digits only are members of one family.
    """
    suggestion = suggest_resource(name, WELL_KNOWN_RESOURCES)
    return None if suggestion is None or _remove_digits(suggestion) == _remove_digits(name) else suggestion


def _remove_digits(name: str) -> str:
    return re.sub(r"[0-9]+", "", name)
