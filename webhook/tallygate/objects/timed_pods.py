"""Pods with the times of their status: when the kubelet started them, and when their containers ended.

Only reports of past time read them; every other reader leaves them out, since they differ from pod to pod.
"""

import msgspec

from tallygate.objects import core
from tallygate.objects.scheduling import SchedulingPod, SchedulingPodStatus


class TerminatedState(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`state.terminated` of a container; a kubelet that has lost a container writes the year 1 as its end."""

    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, omit_defaults=True):
    """`state` of a container."""

    terminated: TerminatedState | None = None


class TimedContainerStatus(core.ContainerStatus, rename="camel", frozen=True, omit_defaults=True):
    """The status of a container with its state."""

    state: ContainerState | None = None


class TimedPodStatus(SchedulingPodStatus, rename="camel", frozen=True, omit_defaults=True):
    """`status` of a pod with the states of its containers."""

    container_statuses: list[TimedContainerStatus] | None = None  # type: ignore[assignment]  # read-only, so that narrower is safe
    init_container_statuses: list[TimedContainerStatus] | None = None  # type: ignore[assignment]  # as above


class TimedPod(SchedulingPod, rename="camel", frozen=True, omit_defaults=True):
    """A pod with all fields that decide where it can run, and its times."""

    status: TimedPodStatus | None = None
