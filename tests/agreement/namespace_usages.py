"""The usage of each namespace of a drawn cluster, by the command over a snapshot and by the server of asks."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from click.testing import CliRunner

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.namespace_usage import UsageContext, answer_usage
from tallygate.answers.namespace_usage_json import convert_usage
from tallygate.cli.app import root
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.policy.model import PolicySet
from tallygate.state.kubernetes.cap_ledger import encode_ledger
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import LedgerKey
from tests.agreement.answers import parse_policies, write_stream
from tests.agreement.drawn import GPU, NAMESPACES, DrawnCase, Object
from tests.answers.asked_clusters import NOW, build_state
from tests.cli.usage.clusters import write_snapshot

MARK, NODE_MARK = "zzother", "yynode"
_NODE: Object = {
    "kind": "Node",
    "metadata": {"name": f"n1-{NODE_MARK}", "uid": "uid-node", "resourceVersion": "5"},
    "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "20", GPU: "6"}},
}


def compare_usages(case: DrawnCase, folder: Path) -> None:
    """Compare the lines for each namespace; what someone without rights elsewhere sees has no name of others."""
    policies = parse_policies(case)
    stored = list(add_pods(case.stored))
    (folder / "policies.yaml").write_text(write_stream(case.policies))
    for namespace in NAMESPACES:
        marked = [mark_names(each, namespace) for each in stored]
        marked += create_ledgers(case, policies, namespace)
        snapshot = write_snapshot(folder, marked)
        arguments = ["--policies", str(folder / "policies.yaml"), "--snapshot", str(snapshot), "-n", namespace]
        result = CliRunner().invoke(root, ["usage", *arguments, "-o", "json"])
        assert result.exit_code == 0, result.output
        expected = json.loads(result.stdout)
        shown = _show_usage(marked, policies, namespace, VisibleNames())
        assert {key: shown[key] for key in ("items", "notes", "unhealthy")} == {
            key: expected[key] for key in ("items", "notes", "unhealthy")
        }
        own = VisibleNames(frozenset({namespace}), nodes=False)
        for visible in (own, VisibleNames(frozenset(), nodes=False)):
            reduced = _show_usage(marked, policies, namespace, visible)
            assert _remove_texts(reduced["items"]) == _remove_texts(shown["items"])
            text = json.dumps(reduced)
            others = "|".join((MARK, NODE_MARK, *(name for name in NAMESPACES if name != namespace)))
            assert not re.search(others, text), text


def _show_usage(stored: Sequence[Object], policies: PolicySet, namespace: str, visible: VisibleNames) -> Object:
    state = build_state(stored, with_templates=True)
    context = UsageContext(policies=policies, state=state, namespace=namespace, now=NOW, shows=visible.shows)
    before = state.require_columns().nodes.get_used(0)
    content: Object = json.loads(json.dumps(convert_usage(answer_usage(context), state, NOW, visible)))
    assert state.require_columns().nodes.get_used(0) == before
    return content


def add_pods(stored: Sequence[Object]) -> Iterator[Object]:
    """Yield the stored objects, a node, and for each namespace a pod that waits, and one with an invalid quantity."""
    yield _NODE
    yield from stored
    container = {"name": "c0", "image": "x:1", "resources": {"requests": {GPU: "5"}}}
    for namespace in NAMESPACES:
        metadata = {"name": "waits", "namespace": namespace, "uid": f"uid-waits-{namespace}", "resourceVersion": "5"}
        spec = {"priority": 0, "containers": [container]}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def create_ledgers(case: DrawnCase, policies: PolicySet, viewed: str) -> Iterator[Object]:
    """Yield the ledgers of every second cap, each with a reservation for a pod; it has a mark unless it is `viewed`."""
    caps, found = CapIndex(policies, None), dict[LedgerKey, ActiveCap]()
    for each in case.stored:
        if each["kind"] == "Namespace":
            name, labels = each["metadata"]["name"], each["metadata"].get("labels", {})
            found |= {get_ledger_key(cap, name): cap for cap in caps.find_matching(name, labels).caps}
    for key, cap in found.items():
        if int(cap.definition.name[-1]) % 2:
            continue
        amounts, namespace = Amounts(dict.fromkeys(sorted(cap.resources), 1)), key.namespace or NAMESPACES[0]
        name = "new" if namespace == viewed else f"new-{MARK}"
        reserved = Reservation(
            namespace, name, NO_AMOUNTS, amounts, "n", single_attempt=True, operation=Operation.CREATE
        )
        ledger = Ledger(cap.hard, amounts, resources=cap.counted, pods_revision=5, namespaces_revision=5)
        made = encode_ledger(key, ledger.with_reservation(f"uid-{key}", reserved), "tallygate-system", None, NOW)
        stored: Object = json.loads(made.body)
        stored["metadata"] |= {"uid": f"uid-{key}", "resourceVersion": "6"}
        yield stored


def mark_names(item: Object, namespace: str) -> Object:
    """Return an object with a mark in its name if it is in another namespace; pods are on the marked node."""
    metadata = item["metadata"]
    if metadata.get("namespace", namespace) != namespace:
        metadata = {**metadata, "name": f"{metadata['name']}-{MARK}", "labels": {MARK: MARK}}
    spec = item.get("spec", {})
    if item["kind"] == "Pod" and "nodeName" in spec:
        spec = {**spec, "nodeName": f"{spec['nodeName']}-{NODE_MARK}", "priority": 0}
    return {**item, "metadata": metadata, **({"spec": spec} if spec else {})}


def _remove_texts(items: Sequence[Object]) -> list[Object]:
    return [{key: value for key, value in item.items() if key != "remarks"} for item in items]
