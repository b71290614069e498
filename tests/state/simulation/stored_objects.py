"""The objects that the API server stores and ledgers count: pods, and claims for devices."""

from typing import NamedTuple


class Template(NamedTuple):
    """The workload that a pod belongs to, and the number of the revision of its template; empty for other pods."""

    workload: str = ""
    number: int = 0


NO_TEMPLATE = Template()


class Pod(NamedTuple):
    """A stored pod of `size` units; filtered caps count it if it is `classed`.

    `template` is that of its controller. `claim` is the name of the scheduler's claim for its extended resource, in its
    status.
    """

    uid: str
    namespace: int
    name: str
    size: int
    classed: bool
    ended: bool
    revision: int
    token: int = 0
    claim: str = ""
    template: Template = NO_TEMPLATE


class Claim(NamedTuple):
    """A stored claim, which gets one of the `alternatives` when it is allocated; `devices` is 0 until then.

    `reserved_for` is the UID of the pod in its status, `owner` that in its metadata, which a tenant can write.
    `made_for` is the pod for whose extended resource the scheduler created it; only the invariants may know it. After
    the end of an allocation `has_ended` is True. It `is_bound` unless it was admitted, created or allocated, by a
    replica that saw its class lead elsewhere.
    """

    uid: str
    namespace: int
    name: str
    alternatives: tuple[int, ...]
    owner: str = ""
    made_for: str = ""
    devices: int = 0
    reserved_for: str = ""
    has_ended: bool = False
    revision: int = 0
    token: int = 0
    is_bound: bool = True

    @property
    def classed(self) -> bool:
        """Whether filtered caps count it: every cap counts claims."""
        return True

    @property
    def is_flexible(self) -> bool:
        """Whether allocations of it may differ in their amounts."""
        return len(set(self.alternatives)) > 1
