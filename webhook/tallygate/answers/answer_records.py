"""The records of an answer as JSON: what `answer_json` and `prediction_json` write, and what clients read.

Texts for people are made from these records alone (`prediction_lines`), so that they show no name that the JSON hides.
What is hidden from an asker is null, and the number of hidden things is in the fields `hidden…`. Readers pass over
fields that they do not know.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from tallygate.accounting.node_fit import UnhealthyDevices
from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.manifests.findings import Finding, FindingSeverity, FindingSubject

HIDDEN_NODE: Final = "[node]"
HIDDEN_DEVICE: Final = "[device]"
"""What texts have in place of the name of a node, and of that of a pool or a device."""


class ObjectRecord(msgspec.Struct, frozen=True):
    """An object by its names, empty for those that it does not have."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return a text such as `Pod team-a/trainer`."""
        return str(FindingSubject(kind=self.kind, namespace=self.namespace, name=self.name))


class AmountRecord(msgspec.Struct, frozen=True):
    """An amount of a resource, in thousandths if the unit is `milli`."""

    resource: str
    unit: Literal["milli", "whole"]
    amount: int


class CopiesRecord(msgspec.Struct, frozen=True):
    """A node, and the number of copies on it."""

    node: str | None
    copies: int


class AllocatedDeviceRecord(msgspec.Struct, frozen=True):
    """A device of a placed copy; the copies are numbered from 1. A claim that only that copy has is null."""

    copy: int
    node: str | None
    claim: str | None
    request: str
    pool: str | None
    device: str | None


class ReasonRecord(msgspec.Struct, frozen=True):
    """A finding that says why pods are rejected; `field` is the path as Kubernetes prints it."""

    code: str
    message: str
    field: str
    reporter: str


class RejectionRecord(msgspec.Struct, frozen=True):
    """The number of rejected pods, null if all are; it has `happened` if a controller reports it."""

    pods: int | None
    reasons: Sequence[ReasonRecord]
    happened: bool = False


class BindErrorRecord(msgspec.Struct, frozen=True):
    """A node on which the binding of the pod fails if kube-scheduler chooses it, and its message."""

    node: str | None
    message: str


class PodRecord(msgspec.Struct, frozen=True):
    """A pod of the cluster, or a copy that was placed before."""

    namespace: str
    name: str
    priority: int


class ConsumerRecord(PodRecord, frozen=True):
    """A pod on a node, and the amounts that it uses of the resources which are short there."""

    used: Sequence[AmountRecord]


class PoolDevicesRecord(msgspec.Struct, frozen=True):
    """A number of devices of a pool."""

    pool: str | None
    devices: int


class ReleasedClaimRecord(msgspec.Struct, frozen=True):
    """A claim that gives devices back."""

    claim: str | None
    devices: Sequence[PoolDevicesRecord]


class EvictionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A node that is feasible after pods on it are evicted, and the claims that then give devices back."""

    node: str | None
    pods: Sequence[PodRecord]
    claims: Sequence[ReleasedClaimRecord] = ()
    hidden_pods: int = 0


class SuggestionRecord(msgspec.Struct, frozen=True):
    """A resource that no node advertises, and a similar name that nodes advertise."""

    resource: str
    suggestion: str


class ScatteredRecord(msgspec.Struct, frozen=True):
    """A resource of which the nodes together have enough free, and no single one.

    It is `restricted` if `free` is that of the nodes that the pod may use, and others have some too.
    """

    resource: str
    unit: Literal["milli", "whole"]
    requests: int
    free: int
    most: int
    restricted: bool


class UnhealthyRecord(msgspec.Struct, frozen=True):
    """The unhealthy devices of a resource on a node, or on all if the node is null, and the capacity."""

    node: str | None
    resource: str
    unhealthy: int
    capacity: int

    def to_devices(self) -> UnhealthyDevices:
        """Return the devices, on a node of no name if it is hidden."""
        return UnhealthyDevices(self.node or HIDDEN_NODE, self.resource, self.unhealthy, self.capacity)


class ShortfallRecord(msgspec.Struct, frozen=True):
    """The shortfall of a resource on a node."""

    resource: str
    unit: Literal["milli", "whole"]
    requests: int
    allocatable: int
    used: int
    free: int
    short: int


class HolderRecord(msgspec.Struct, frozen=True):
    """A claim that has devices, null for an earlier copy of the pods, the pods that use it, and its devices."""

    claim: str | None
    pods: Sequence[str]
    devices: int


class MismatchRecord(msgspec.Struct, frozen=True):
    """The number of devices that do not suit for a reason."""

    reason: str
    devices: int


class PoolShortfallRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The devices of a pool for one request; `problem` is why nothing is allocated from it."""

    pool: str | None
    problem: str | None
    devices: int
    free: int
    allocated: Sequence[HolderRecord]
    unsuitable: Sequence[MismatchRecord]
    hidden_allocated: int = 0


class DeviceShortfallRecord(msgspec.Struct, frozen=True):
    """A request for devices that a node cannot give: that of a claim, or of an extended resource of a container."""

    claim: str | None
    resource: str | None
    container: str | None
    request: str
    device_class: str = msgspec.field(name="class")
    requests: int | Literal["all"]
    missing: int
    pools: Sequence[PoolShortfallRecord]
    causes: Sequence[str]


class DiagnosisRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A node, and why the pod does not fit: the scheduler's reasons, and whether it `ever` does once others left."""

    node: str | None
    fits: bool
    ever: bool
    reasons: Sequence[str]
    shortfalls: Sequence[ShortfallRecord]
    consumers: Sequence[ConsumerRecord]
    device_shortfalls: Sequence[DeviceShortfallRecord]
    hidden_consumers: int = 0


class RemedyRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A change that would help, what it `changes`, and the nodes that are feasible after it.

    `nodeCount` is the number of these nodes where their names are hidden.
    """

    change: str
    nodes: Sequence[str]
    changes: Literal["pod", "object", "machine"]
    node_count: int | None = None


class NodeChoiceRecord(msgspec.Struct, frozen=True):
    """The labels that a pool chooses for new nodes, and the number of those nodes."""

    labels: Mapping[str, str]
    nodes: int


class NewNodesRecord(msgspec.Struct, frozen=True):
    """Whether copies without a node would fit on new nodes of a shape, which has a name and at most `most` nodes.

    `labels` are the values that the pool chose for the shape. The shape is `found` if it is that of a pool.
    """

    shape: str
    most: int | None
    answer: Literal["fits", "does not fit", "unknown"]
    copies: int
    of: int
    nodes: int
    choices: Sequence[NodeChoiceRecord]
    reasons: Sequence[str]
    unknown: str | None
    cut: bool
    labels: Mapping[str, str]
    found: bool


class SchedulerRecord(msgspec.Struct, frozen=True):
    """The version of kube-scheduler whose rules apply, and the version that the cluster reports."""

    rules: str
    cluster: str | None


class PredictionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The prediction for the copies of one template of an object, as `tallygate predict` has it.

    `copies` are called `of`; those of a DaemonSet are `onePerNode`. If one of them cannot run, the other fields
    describe the first such copy.
    """

    object: ObjectRecord
    verdict: Feasibility
    copies: int
    placed: int
    of: str
    rejected: RejectionRecord | None
    on: Sequence[CopiesRecord]
    devices: Sequence[AllocatedDeviceRecord]
    feasible_nodes: int
    message: str | None
    hold_reason: str | None
    bind_errors: Sequence[BindErrorRecord]
    nominated: Sequence[str | None]
    preempts: EvictionRecord | None
    largest: Sequence[AmountRecord]
    suggestions: Sequence[SuggestionRecord]
    scattered: Sequence[ScatteredRecord]
    unhealthy: Sequence[UnhealthyRecord]
    unknown: Sequence[str]
    closest_nodes: Sequence[DiagnosisRecord]
    evictions: Sequence[EvictionRecord]
    remedies: Sequence[RemedyRecord]
    new_nodes: Sequence[NewNodesRecord]
    one_per_node: bool
    gates: Sequence[str]
    scheduler: SchedulerRecord


class LimitingReasonRecord(msgspec.Struct, frozen=True):
    """A reason why no further copy fits, and the number of nodes that have it."""

    reason: str
    nodes: int


class NewNodeCapacityRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The copies on the first new node of a shape, of which `most` may come; null if that is `unknown`.

    `labels` are the values that the pool chose for the shape. The shape is `found` if it is that of a pool.
    """

    shape: str
    most: int | None
    copies_per_node: int | None
    labels: Mapping[str, str]
    unknown: str | None
    found: bool


class HeadroomRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The number of further copies of a pod, or of one of a workload's templates, as `tallygate headroom` has it.

    `nodes` are those with room for some. The `message` is the beginning of the scheduler's one for the next copy, and
    `unknown` names what was not evaluated.
    """

    object: ObjectRecord
    copies: int
    nodes: Sequence[CopiesRecord]
    message: str
    limits: Sequence[LimitingReasonRecord]
    unknown: Sequence[str]
    new_nodes: Sequence[NewNodeCapacityRecord]
    unhealthy: Sequence[UnhealthyRecord]
    scheduler: SchedulerRecord


class FindingRecord(msgspec.Struct, frozen=True):
    """A finding about an object, with its place in the body of the ask; `document` counts from 0.

    `by` is `the API server`, `tallygate`, `rule NAME` or `cap NAME`, `why` the reason that the author of a policy
    gives, `source` the template that the object comes from, and `name` the name of the code.
    """

    file: str
    line: int
    column: int
    level: FindingSeverity
    code: str
    name: str
    message: str
    by: str
    why: str
    field: str
    document: int
    object: ObjectRecord
    source: str

    def to_finding(self) -> Finding:
        """Return the finding."""
        of = self.object
        subject = FindingSubject(self.document, of.kind, of.namespace, of.name, self.source)
        place = self.file, self.line, self.column
        return Finding(*place, self.level, self.code, self.message, self.by, self.field, subject, self.why)


class ObjectAnswerRecord(msgspec.Struct, frozen=True):
    """The answer about one object.

    It is `read` if it is of a kind with pods or resources. `admitted` has the number of pods of each template that are
    admitted now; null if all are.
    """

    object: ObjectRecord
    read: bool
    admitted: Sequence[int] | None
    findings: Sequence[FindingRecord]
    predictions: Sequence[PredictionRecord]


class VerdictCountRecord(msgspec.Struct, frozen=True):
    """The number of templates with a verdict."""

    verdict: str
    templates: int


class AnswerSummaryRecord(msgspec.Struct, frozen=True):
    """The numbers of an answer."""

    objects: int
    errors: int
    warnings: int
    notes: int
    verdicts: Sequence[VerdictCountRecord]


class AskAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer about objects in their order, from the state at `revision`; null if that is not known.

    `notModelled` are the objects that would act on the others once they are stored, and do not act here. `remarks` are
    messages about objects and the state.
    """

    api_version: Literal["tallygate.dev/v1"]
    kind: Literal["AskAnswer"]
    revision: str | None
    as_of: str
    objects: Sequence[ObjectAnswerRecord]
    not_modelled: Sequence[str]
    remarks: Sequence[str]
    summary: AnswerSummaryRecord


class UnreadObjectRecord(msgspec.Struct, frozen=True):
    """An object that has pods, and whose kind is not read."""

    object: ObjectRecord
    message: str


class AskHeadroom(msgspec.Struct, frozen=True, rename="camel"):
    """The copies of each pod by itself for which the nodes have room, from the state at `revision`; null if not known.

    Caps and quotas do not count. There are no items for `unread` objects. `notModelled` are the objects that would act
    on the others once they are stored, and do not act here. `remarks` are messages about objects and the state.
    """

    api_version: Literal["tallygate.dev/v1"]
    kind: Literal["AskHeadroom"]
    revision: str | None
    as_of: str
    items: Sequence[HeadroomRecord]
    unread: Sequence[UnreadObjectRecord]
    not_modelled: Sequence[str]
    remarks: Sequence[str]


def read_headroom(content: Mapping[str, Any]) -> HeadroomRecord:
    """Return the record of an item of `tallygate headroom` that this program has made as plain data."""
    return msgspec.convert(content, HeadroomRecord)


def read_prediction(content: Mapping[str, Any]) -> PredictionRecord:
    """Return the record of a prediction that this program has made as plain data."""
    return msgspec.convert(content, PredictionRecord)
