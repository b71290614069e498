"""The caps of a world in which a gate decides whole reviews: with surges, workloads as wholes, and limits that end."""

from tests.gate.simulation.cluster_objects import UNIX_START, format_time
from tests.gate.simulation.device_policies import CAP, Policies, create_version

SURGE_SECONDS = 12
"""The time that a surge may last."""
_HARD, _SHARED_HARD, _RAISED, _RAISED_SECONDS, _MOST = 4, 6, 8, 25, 6
_SURGES = (2, 3)
"""The surges of both caps, by version of the policies."""
_ANNOTATED = f"  overrideAnnotation: {{setBy: {{groups: [admins]}}, most: {{nvidia.com/gpu: {_MOST}}}}}\n"
_UNTIL = format_time(UNIX_START + _RAISED_SECONDS)
_RAISE = f"  overrides: [{{hard: {{nvidia.com/gpu: {_RAISED}}}, until: {_UNTIL}}}]\n"
_WHOLE = "  admit: whole\n"


def _index(more_of_each: str = "", more_of_shared: str = "") -> Policies:
    cap_of_each = CAP.format(name="each", shared="false", hard=_HARD) + more_of_each
    shared_cap = CAP.format(name="together", shared="true", hard=_SHARED_HARD) + more_of_shared
    surges = [f"  surge: {{amounts: {{nvidia.com/gpu: {each}}}, for: {SURGE_SECONDS}s}}\n" for each in _SURGES]
    first, other = (create_version(f"{cap_of_each}{surge}---{shared_cap}{surge}") for surge in surges)
    return Policies(first, other, has_reviews=True)


ROLLOUTS = _index()
LIMITED_ROLLOUTS = _index(_WHOLE + _ANNOTATED, _WHOLE + _RAISE)
"""Workloads are admitted as a whole, annotations set limits of namespaces, and a raise of the shared limit ends."""
