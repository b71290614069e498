"""Newcomers: the pods that a change brings, as a scheduler will meet them."""

from collections.abc import Iterator, Mapping

import msgspec

from webhook.admission.change import Change
from webhook.admission.sites import sites
from webhook.admission.workloads import PodView, Target, target
from webhook.errors import TallygateError
from webhook.gate.foresight import WORKLOADS, changed
from webhook.objects.meta import ObjectMeta
from webhook.objects.scheduling import SchedulingPod, SchedulingPodSpec

_POD = msgspec.json.Decoder(SchedulingPod)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ONE_PER_NODE = "DaemonSet"
_NOTHING = msgspec.Raw(b"null")
_EMPTY = (b"null", b"[]")
_MOST_BYTES = 128 * 1024  # of words about nodes and other pods; the thousand that are gone through are shorter


class TooMuchError(TallygateError):
    """A pod says more of nodes and other pods than anybody goes through."""


class _Words(msgspec.Struct, rename="camel"):
    """What a pod says of nodes and other pods, unread."""

    affinity: msgspec.Raw = _NOTHING
    tolerations: msgspec.Raw = _NOTHING
    topology_spread_constraints: msgspec.Raw = _NOTHING
    node_selector: msgspec.Raw = _NOTHING


class _Wordy(msgspec.Struct):
    spec: _Words | None = None


_WORDY = msgspec.json.Decoder(_Wordy)


class Newcomers(msgspec.Struct, frozen=True):
    """A pod, which stands at `path` in its object, and how many `copies` of it are to run; on every node if None.

    `words` is what these are called, empty for a pod by itself. Of those that `wait` it is not known whether they have
    room now: they stand in for others that end, something is still to be done before they are scheduled, their priority
    is not known, or claims come with them.
    """

    pod: SchedulingPod
    path: str = ""
    copies: int | None = 1
    words: str = ""
    wait: bool = False

    def where(self) -> Mapping[str, str]:
        """For each resource that they ask for, at which path it is first asked for."""
        view = PodView(self.path, self.pod, template=bool(self.path))
        return dict(reversed(list(_written(view))))


def newcomers(change: Change) -> Newcomers | None:
    """The pods that a change brings; None when it brings none, or a scheduler is not asked about them.

    None too for pods that no API server could decode: it refuses them itself.

    Raises:
        ReviewError: an object is not of the kind it says it is.
        TooMuchError: what a pod says of nodes and other pods is too long to be read.
    """
    found = target(change)
    if found is None or change.subresource:
        return None
    try:
        if (change.group, change.kind) == ("", "Pod"):
            return _by_itself(change) if change.old is None else None
        return _of_workload(change, found) if change.kind in WORKLOADS else None
    except msgspec.DecodeError:
        return None


def _by_itself(change: Change) -> Newcomers | None:
    pod = _placed(change, "")
    spec = pod.spec or SchedulingPodSpec()
    return None if spec.node_name else Newcomers(pod, wait=bool(spec.scheduling_gates) or _is_unranked(spec))


def _of_workload(change: Change, found: Target) -> Newcomers | None:
    """Those of a new workload, those that one has more than before, or one of those that take the others' place."""
    asked, stored = changed(change, found)
    if asked is None:
        return None
    more = asked.pods.count - (stored.pods.count if stored else 0)
    if stored is not None and not asked.rolls and more <= 0:
        return None
    pod = _placed(change, asked.path)
    spec = pod.spec or SchedulingPodSpec()
    words = f"more {asked.pods.word}" if stored else asked.pods.word
    wait = asked.rolls or not more or bool(spec.scheduling_gates) or _is_unranked(spec) or _makes_claims(change)
    copies = None if change.kind == _ONE_PER_NODE else max(more, 1)
    return Newcomers(pod, asked.path, copies, words, wait)


def _placed(change: Change, path: str) -> SchedulingPod:
    """The pod with all that decides where it can run; it is in the change's namespace, and its labels are its own."""
    content = msgspec.Raw(bytes(change.object))
    for step in filter(None, path.split(".")):
        content = _FIELDS.decode(content)[step]
    if _is_too_much(content):
        raise TooMuchError
    pod = _POD.decode(content)
    meta = msgspec.structs.replace(pod.metadata or ObjectMeta(), namespace=change.namespace)
    return msgspec.structs.replace(pod, metadata=meta)


def _is_too_much(content: msgspec.Raw) -> bool:
    """Whether it would take longer to read than all the rest of a pod; the bytes are looked over only."""
    if len(bytes(content)) <= _MOST_BYTES:
        return False
    words = _WORDY.decode(content).spec or _Words()
    said = (words.affinity, words.tolerations, words.topology_spread_constraints, words.node_selector)
    return sum(len(bytes(each)) for each in said) > _MOST_BYTES


def _makes_claims(change: Change) -> bool:
    """Whether claims are made with the pods, as by a StatefulSet: where these lead is not known."""
    spec = _FIELDS.decode(change.object).get("spec")
    return spec is not None and bytes(_FIELDS.decode(spec).get("volumeClaimTemplates", _NOTHING)) not in _EMPTY


def _is_unranked(spec: SchedulingPodSpec) -> bool:
    """Whether a class is named whose priority has not been filled in."""
    return spec.priority is None and bool(spec.priority_class_name)


def _written(view: PodView) -> Iterator[tuple[str, str]]:
    for site in sites(view.pod, view):
        for listed, entries in site.lists:
            for name in entries:
                yield name, f"{site.path}{listed}[{name}]"
