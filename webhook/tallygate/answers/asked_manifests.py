"""The answer about manifests that are asked about: would they be accepted, and would their pods run?

It is the review of `tallygate check` and the prediction of `tallygate predict`, of all objects in their order over one
state: what an object uses is not free for those after it. What the answer puts into the state is taken out at the end,
whatever happens, so that a live state can be asked.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.node_pools import merge_shapes
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING
from tallygate.admission.kinds import list_review_targets
from tallygate.answers.checker import CheckedObject
from tallygate.answers.group_predictions import open_group_predictions
from tallygate.answers.new_node_lines import predict_admitted
from tallygate.answers.pods_to_place import DeviceClaimObject, PodsInFiles, PodsToPlace, create_pods_in_files
from tallygate.answers.prediction_details import PredictionDetails
from tallygate.answers.review_pods import Rejection, ReviewContext, ReviewedPods, review_pods
from tallygate.answers.version_notes import list_version_notes
from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.errors import TallygateError
from tallygate.manifests.applied_objects import list_applied_objects
from tallygate.manifests.findings import FindingSubject
from tallygate.manifests.kind_manifests import ManifestsError
from tallygate.manifests.manifest_objects import Manifest
from tallygate.manifests.typed_objects import create_subject
from tallygate.objects.devices import ResourceClaimTemplate
from tallygate.objects.scheduling import PodGroup
from tallygate.policy.model import POLICY_GROUP, PolicySet

T = TypeVar("T")

MAX_COPIES: Final = 10_000
"""The pods of one ask, of all its objects: those of a large cluster are placed within seconds."""

_CLUSTER_KINDS: Final = (
    *((known.version, known.kind) for known in kinds.KINDS.values()),
    *((version, kind) for version, _, kind in (*kinds.VOLUME_RESOURCES, kinds.BUDGET_RESOURCE)),
)
_MODELLED: Final = frozenset({("", "Pod"), *(("resource.k8s.io", f"ResourceClaim{end}") for end in ("", "Template"))})
_ACTING: Final = frozenset((version.rpartition("/")[0], kind) for version, kind in _CLUSTER_KINDS) - _MODELLED
"""The kinds of objects that act on others once they are stored, and that do not act within an ask."""


class TooManyCopiesError(TallygateError):
    """An ask about more pods than one answer has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskContext:
    """The inputs of an answer.

    Args:
        policies: the policies that decide.
        state: the cluster, with columns; nothing else may use it before the answer is complete.
        namespace: the namespace of objects that name none.
        now: the time by which overrides of limits end.
        check_time: a function that is called before each object and copy, and raises once the answer is too late.
    """

    policies: PolicySet
    state: ClusterState
    namespace: str
    now: datetime
    check_time: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class ObjectAnswer:
    """The findings about one object, and the predictions for its pods: one for each template, none without pods."""

    subject: FindingSubject
    checked: CheckedObject
    predictions: tuple[PredictionDetails, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer about all objects, in their order.

    `not_modelled` are the objects that would act on the others once they are stored, and do not act here. `remarks` are
    the messages about objects and the state. `revision` is the one up to which the namespaces, the pods and the nodes
    are known, None if that of one of them is not.
    """

    objects: tuple[ObjectAnswer, ...]
    not_modelled: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    revision: int | None = None


@dataclass(slots=True)
class AskProgress:
    """The messages of one answer, and the check of its time between two objects."""

    check_time: Callable[[], None]
    remarks: list[str] = field(default_factory=list)

    def report(self, message: str) -> None:
        """Add a message to the remarks, once."""
        if message not in self.remarks:
            self.remarks.append(message)

    def track(self, _: str, items: Sequence[T]) -> Iterator[T]:
        """Yield the items as long as there is time."""
        for item in items:
            self.check_time()
            yield item


def report_version(cluster: Cluster, progress: AskProgress) -> None:
    """Report why the rules of the answer may not be those of the cluster."""
    unreported = "the API server does not report its version"
    for note in list_version_notes(cluster.version, cluster.git_version, unreported):
        progress.report(note)


def answer_manifests(manifests: Sequence[Manifest], context: AskContext) -> Answer:
    """Return the answer about these objects; afterwards the state is as it was before.

    Raises:
        TooManyCopiesError: if the objects have more than 10,000 pods.
        TallygateError: if an object of the state is not as an API server stores it, or what `check_time` raises.
    """
    progress = AskProgress(context.check_time)
    in_files = _read_pods(manifests, context, progress)
    cluster, groups = context.state.require_columns(), list_asked_groups(manifests, context.namespace)
    with (
        _apply_templates(manifests, context),
        in_files.apply_claims(cluster),
        cluster.pod_groups.apply(groups),
    ):
        reviewed = review_pods(in_files, _create_review_context(manifests, context, progress))
        predictions = _predict_all(reviewed, context, progress)
    targets = list_review_targets(context.policies)
    objects = []
    for manifest, checked in zip(manifests, reviewed.objects, strict=True):
        subject = create_subject(manifest, context.namespace, targets)
        objects.append(ObjectAnswer(subject, checked, tuple(predictions.pop(subject, ()))))
    not_modelled = tuple(list_acting(manifests))
    report_version(cluster, progress)
    return Answer(tuple(objects), not_modelled, tuple(progress.remarks), context.state.find_revision())


def _create_review_context(manifests: Iterable[Manifest], context: AskContext, progress: AskProgress) -> ReviewContext:
    return ReviewContext(
        policies=context.policies,
        state=context.state,
        namespace=context.namespace,
        now=context.now,
        progress=progress,
        charged_namespaces={manifest.namespace or context.namespace for manifest in manifests},
    )


def _read_pods(manifests: Sequence[Manifest], context: AskContext, progress: AskProgress) -> PodsInFiles:
    """Return the pods of the objects that an API server could decode; the review has findings about the others.

    Each object is read by itself, so that a definition of a kind among them does not act on the others.

    Raises:
        TooManyCopiesError: if there are too many pods.
    """
    pods, claims = list[PodsToPlace](), list[DeviceClaimObject]()
    for manifest in progress.track("", manifests):
        try:
            found = create_pods_in_files([manifest], context.namespace, context.policies, None, _ignore)
        except ManifestsError:
            continue
        pods += found.pods
        claims += found.claims
    count = sum(each.count or 0 for each in pods)
    if count > MAX_COPIES:
        raise TooManyCopiesError(f"the objects have {count} pods, and one ask is about at most {MAX_COPIES}")
    return PodsInFiles(tuple(pods), claims=tuple(claims), manifests=tuple(manifests), selected=tuple(manifests))


def _ignore(_: str) -> None:
    """Ignore the message about an object whose kind is not read: the review has a finding about it."""


def list_asked_groups(manifests: Iterable[Manifest], namespace: str) -> list[PodGroup]:
    """Return the PodGroups among the objects, which act as if they were stored."""
    applied = (item for _, item in list_applied_objects(manifests, namespace, DEFAULT_LIMITS))
    return [item for item in applied if isinstance(item, PodGroup)]


@contextmanager
def _apply_templates(manifests: Iterable[Manifest], context: AskContext) -> Generator[None]:
    applied = (item for _, item in list_applied_objects(manifests, context.namespace, DEFAULT_LIMITS))
    templates = [item for item in applied if isinstance(item, ResourceClaimTemplate)]
    with context.state.claim_templates.apply_templates(templates):
        yield


def _predict_all(
    reviewed: ReviewedPods, context: AskContext, progress: AskProgress
) -> dict[FindingSubject, list[PredictionDetails]]:
    """Place all pods in one session, and return the predictions by object.

    Pods that are not as an API server would store them have no prediction; where their object has no error, a remark
    says so.
    """
    cluster = context.state.require_columns()
    shapes = merge_shapes(context.policies.node_shapes, cluster.pools.list_shapes())
    predictions: dict[FindingSubject, list[PredictionDetails]] = {}
    with (
        open_group_predictions([pods for pods, _ in reviewed.pods], cluster) as groups,
        open_placement_session(cluster, check_time=context.check_time) as session,
    ):
        for pods, rejection in progress.track("", reviewed.pods):
            try:
                details = predict_admitted(pods, rejection, cluster, session, DEFAULT_SCORING, shapes, groups)
            except TallygateError as error:
                if not _is_rejected(rejection):
                    progress.report(f"{pods.subject}: {error}")
                continue
            predictions.setdefault(pods.subject, []).append(details)
    return predictions


def _is_rejected(rejection: Rejection | None) -> bool:
    return rejection is not None and rejection.count is None


def list_acting(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Yield the objects that would act on others once they are stored, policies among them."""
    for manifest in manifests:
        if (manifest.group, manifest.kind) in _ACTING or manifest.group == POLICY_GROUP:
            yield f"{manifest.kind} {'/'.join(filter(None, (manifest.namespace, manifest.name)))}"
