"""Clusters and objects that are asked about: those of the recorded predictions, and one of several namespaces."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tallygate.accounting.cluster.pod_groups import GATES
from tallygate.answers.answer_json import VisibleNames, convert_answer
from tallygate.answers.asked_manifests import AskContext, answer_manifests
from tallygate.answers.live_hours import LiveHours
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.state_builder import StateBuilder
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.documents.to_json import to_json
from tallygate.kube.resource_codec import Replaced
from tallygate.manifests.manifest_objects import Manifest, list_objects
from tallygate.objects.scheduling import SchedulingPod
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import parse
from tallygate.state.informers import named_stores
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_templates import PodTemplates
from tallygate.state.informers.scheduler_cache import SchedulerCache
from tests.cli.predict import CASES

Object = dict[str, Any]

NOW = datetime(2026, 1, 1, 10, tzinfo=UTC)
ALL_NAMES = VisibleNames()
NO_NAMES = VisibleNames(frozenset(), nodes=False)
NO_HOURS = LiveHours(lambda: 0, dict)
"""The hours of a server that has seen no event."""

_OTHER_OPTIONS = {"--add", "--what-if", "--replicas", "--scoring", "-l", "-A", "headroom"}
_OTHERS = {
    "invalid_predict_arguments_are_usage_errors": "no cluster is read",
}
"""The recorded commands whose answers differ from those of an ask, each with the reason."""


class Ask(NamedTuple):
    """Objects as text, the objects of a cluster, and the policies: as of one recorded prediction.

    `words` are the command of the prediction, and `gates` the feature gates that it names.
    """

    name: str
    text: str
    cluster: Sequence[Object]
    policies: PolicySet
    namespace: str
    words: Sequence[str]
    gates: frozenset[str] = frozenset()

    def build_state(self, cluster: Sequence[Object] | None = None) -> ClusterState:
        """Return the state of the cluster, or of other objects in its place."""
        state = build_state(self.cluster if cluster is None else cluster)
        state.require_columns().pod_groups.turn_on(self.gates)
        return state

    def answer(self, state: ClusterState, visible: VisibleNames = ALL_NAMES) -> Object:
        """Return the answer as JSON."""
        return answer(self.text, state, visible, self.policies, self.namespace)


def build_state(objects: Sequence[Object], *, with_templates: bool = False) -> ClusterState:
    """Return the state of these objects, as a snapshot has it; with the templates of its pods, as a server keeps them.

    The columns of both are the same: `tests.server.test_asked_cluster` has a server's.
    """
    builder = StateBuilder(with_columns=True)
    for each in objects:
        builder.add(each["kind"], msgspec.Raw(json.dumps(each).encode()))
    state = builder.finish_snapshot("100")
    if with_templates:
        state.pod_templates = PodTemplates()
        state.pod_templates.apply(Replaced(list(_create_records(objects, state)), 100))
    return state


def _create_records(objects: Sequence[Object], state: ClusterState) -> Iterator[PodRecord]:
    """Yield the records of the pods among these objects, as the watch of a server creates them."""
    templates = PodTemplates() if state.pod_templates is None else state.pod_templates
    codec = create_idle_cache().create_pod_codec(state.pods, templates)
    for each in objects:
        if each["kind"] == "Pod":
            meta = {"namespace": "default", "resourceVersion": "1", **each["metadata"]}
            identity = {"uid": f"{meta['namespace']}/{meta['name']}", **meta}
            pod = msgspec.json.decode(json.dumps(each | {"metadata": identity}), type=SchedulingPod)
            yield codec.create_record(pod)


def create_idle_cache() -> SchedulerCache:
    """Return a cache of a scheduler that no watch updates."""
    stores = named_stores
    return SchedulerCache(
        stores.NodeStore(),
        stores.NamespaceStore(),
        stores.DeviceClassStore(),
        stores.NodePoolStore(),
        stores.NodeClaimStore(),
    )


def read_manifests(text: str) -> list[Manifest]:
    """Return the objects of a text."""
    documents = read_documents(text, DEFAULT_LIMITS)
    return [item for document in documents for item in list_objects("ask", document) if isinstance(item, Manifest)]


def create_context(
    state: ClusterState, policies: PolicySet | None = None, namespace: str = "default", **more: Any
) -> AskContext:
    """Return the context of an answer."""
    return AskContext(policies=policies or PolicySet(), state=state, namespace=namespace, now=NOW, **more)


def answer(
    text: str,
    state: ClusterState,
    visible: VisibleNames = ALL_NAMES,
    policies: PolicySet | None = None,
    namespace: str = "default",
) -> Object:
    """Return the answer about the objects of a text as JSON."""
    answered = answer_manifests(read_manifests(text), create_context(state, policies, namespace))
    content: Object = json.loads(json.dumps(convert_answer(answered, state, NOW, visible)))
    return content


def read_policies(text: str) -> PolicySet:
    """Return the policies of a text."""
    parsed = parse([("policies.yaml", text.encode())])
    assert parsed.is_usable, parsed.findings
    return parsed.policies


def list_recorded_asks() -> Iterator[Ask]:
    """Yield what recorded commands predict for the objects of one file over one snapshot."""
    seen: set[tuple[str, ...]] = set()
    for folder in sorted(CASES.iterdir()):
        lines = (folder / "commands").read_text().splitlines() if folder.name not in _OTHERS else []
        for words in map(shlex.split, lines):
            if not (ask := _read_command(words)) or (folder.name, *ask.values()) in seen:
                continue
            seen.add((folder.name, *ask.values()))
            path = folder / ask["policies"]
            files = [] if not ask["policies"] else sorted(path.iterdir()) if path.is_dir() else [path]
            policies = parse([(file.name, file.read_bytes()) for file in files]).policies
            cluster = _read_cluster(folder / ask["snapshot"])
            text = (folder / ask["file"]).read_text()
            yield Ask(
                f"{folder.name} {ask['file']}",
                text,
                cluster,
                policies,
                ask["namespace"],
                words[1:],
                _read_gates(ask["gates"]),
            )


def _read_command(words: Sequence[str]) -> Mapping[str, str]:
    """Return the arguments of a prediction for a file; nothing for another command."""
    options = dict(zip(words, (*words[1:], ""), strict=True))
    file = options.get("-f") or (words[2] if words[2:] and words[2].endswith((".yaml", ".json")) else "")
    if words[1] != "predict" or _OTHER_OPTIONS & set(words) or not file or "--snapshot" not in words:
        return {}
    if not _read_gates(options.get("--feature-gates", "")) <= set(GATES):  # no cluster is read
        return {}
    return {
        "file": file,
        "snapshot": options["--snapshot"],
        "policies": options.get("--policies", ""),
        "namespace": options.get("-n", "default"),
        "gates": options.get("--feature-gates", ""),
    }


def _read_gates(text: str) -> frozenset[str]:
    """Return the names of the feature gates that are on."""
    return frozenset(each.partition("=")[0] for each in text.split(",") if each.endswith("=true"))


def _read_cluster(path: Path) -> list[Object]:
    """Return the objects of a snapshot."""
    documents = [
        json.loads(to_json(document.root, DEFAULT_LIMITS.expanded))
        for document in read_documents(path.read_text(), DEFAULT_LIMITS)
    ]
    return [item for document in documents for item in document.get("items", [document])]
