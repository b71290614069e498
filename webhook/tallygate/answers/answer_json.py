"""An answer as plain data, as far as its asker may see it.

An asker who may ask about a namespace sees numbers of the whole cluster, and names only of what he may list:
- pods, and the claims that they use, of namespaces in which he may list pods; of the others there is their number;
- nodes, and the pools and devices on them, if he may list nodes; else their names are null, and hidden in texts.

Each key of a prediction, and of the numbers of further copies, has a rule here: one without a rule is an error, so that
nothing is shown by default.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from tallygate.accounting.scheduling.device_remedies import find_namespace_of_deleted
from tallygate.accounting.scheduling.device_shortfalls import hide_holders
from tallygate.answers.answer_records import HIDDEN_DEVICE, HIDDEN_NODE
from tallygate.answers.asked_headroom import HeadroomAnswer
from tallygate.answers.asked_manifests import Answer, ObjectAnswer
from tallygate.answers.columns import API_VERSION, FINDINGS
from tallygate.answers.group_predictions import hide_group_members
from tallygate.answers.prediction_json import convert_capacities, convert_predictions
from tallygate.answers.usage_report import format_time
from tallygate.cluster.cluster_state import ClusterState
from tallygate.manifests.findings import Finding, FindingSeverity, count_severities
from tallygate.review.cap_messages import hide_top_namespaces

_CHUNK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_UNKNOWN_LABELS: Final = "affinity: the labels of namespaces are not known"
_OTHER_CLAIM: Final = "delete a claim of another namespace, which no pod uses"

Dict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VisibleNames:
    """The names that an asker may see: pods of the namespaces in which he may list them, None for all, and nodes.

    `events` says whether he may list the Events of the namespace that he asks about.
    """

    namespaces: frozenset[str] | None = None
    nodes: bool = True
    events: bool = True

    def shows(self, namespace: str) -> bool:
        """Return whether the names of pods in a namespace are shown."""
        return self.namespaces is None or namespace in self.namespaces


def convert_answer(answer: Answer, state: ClusterState, as_of: datetime, visible: VisibleNames) -> Dict:
    """Return an answer of this state, as its asker may see it; `as_of` is the time up to which the state is known."""
    redactor = Redactor(state, visible)
    findings = [finding for each in answer.objects for finding in each.checked.findings]
    verdicts = Counter(details.feasibility.value for each in answer.objects for details in each.predictions)
    severities = count_severities(findings)
    return {
        "apiVersion": API_VERSION,
        "kind": "AskAnswer",
        "revision": None if answer.revision is None else str(answer.revision),
        "asOf": format_time(as_of),
        "objects": [_convert_object(each, state, redactor) for each in answer.objects],
        "notModelled": list(answer.not_modelled),
        "remarks": list(map(redactor.hide_names, answer.remarks)),
        "summary": {
            "objects": len(answer.objects),
            **{f"{severity.value}s": severities[severity] for severity in FindingSeverity},
            "verdicts": [{"verdict": verdict, "templates": count} for verdict, count in sorted(verdicts.items())],
        },
    }


def convert_headroom(answer: HeadroomAnswer, state: ClusterState, as_of: datetime, visible: VisibleNames) -> Dict:
    """Return an answer of this state, as its asker may see it; `as_of` is the time up to which the state is known."""
    redactor = Redactor(state, visible)
    capacities = convert_capacities(answer.capacities, state.require_columns())
    return {
        "apiVersion": API_VERSION,
        "kind": "AskHeadroom",
        "revision": None if answer.revision is None else str(answer.revision),
        "asOf": format_time(as_of),
        "items": list(map(redactor.redact_capacity, capacities)),
        "unread": [{"object": each.subject.to_dict(), "message": each.message} for each in answer.unread],
        "notModelled": list(answer.not_modelled),
        "remarks": list(map(redactor.hide_names, answer.remarks)),
    }


def _convert_object(answer: ObjectAnswer, state: ClusterState, redactor: "Redactor") -> Dict:
    checked = answer.checked
    return {
        "object": answer.subject.to_dict(),
        "read": checked.is_read,
        "admitted": None if checked.admitted is None else list(checked.admitted),
        "findings": [redactor.convert_finding(finding) for finding in checked.findings],
        "predictions": [
            redactor.redact_prediction(prediction)
            for prediction in convert_predictions(answer.predictions, state.require_columns())
        ],
    }


class Redactor:
    """The rules for one asker, over the names of one state."""

    def __init__(self, state: ClusterState, visible: VisibleNames) -> None:
        cluster = state.require_columns()
        self._visible = visible
        self._devices_problem = "" if visible.nodes and visible.namespaces is None else cluster.devices_problem
        self._nodes, self._drivers = frozenset[str](), frozenset[str]()
        if not visible.nodes:
            self._nodes = frozenset(map(cluster.nodes.get_name, cluster.nodes.get_indices().tolist()))
            self._drivers = frozenset(record.driver for record in state.devices.list_records())
        self._rules: Mapping[str, Callable[[Any], Any]] = {
            **dict.fromkeys(_PLAIN_KEYS, _keep),
            **dict.fromkeys(_TEXT_KEYS, self._hide_in_texts),
            "on": self._hide_nodes,
            "bindErrors": lambda errors: self._hide_in_texts(self._hide_nodes(errors)),
            "devices": self._hide_devices,
            "unknown": lambda texts: list(map(self._hide_unknown, texts)),
            "unhealthy": self.merge_unhealthy,
            "nominated": lambda names: list(map(self._show, names)),
            "preempts": lambda eviction: eviction and self._redact_eviction(eviction),
            "evictions": lambda evictions: list(map(self._redact_eviction, evictions)),
            "closestNodes": lambda nodes: list(map(self._redact_diagnosis, nodes)),
            "remedies": self._redact_remedies,
        }
        self._capacity_rules: Mapping[str, Callable[[Any], Any]] = {
            **dict.fromkeys(("object", "copies", "scheduler"), _keep),
            **dict.fromkeys(("message", "limits", "newNodes"), self._hide_in_texts),
            "nodes": self._sort_hidden_nodes,
            "unknown": self._rules["unknown"],
            "unhealthy": self.merge_unhealthy,
        }

    def convert_finding(self, finding: Finding) -> Dict:
        """Return a finding; only its message has names that its asker did not write."""
        content = FINDINGS.to_dict(finding)
        return content | {"message": self.hide_consumers(content["message"])}

    def redact_prediction(self, prediction: Dict) -> Dict:
        """Return a prediction by the rule of each key."""
        shown = {key: self._rules[key](value) for key, value in prediction.items()}
        return shown if self._visible.shows(prediction["object"]["namespace"]) else _hide_group(shown)

    def redact_capacity(self, capacity: Dict) -> Dict:
        """Return the number of further copies of a pod by the rule of each key."""
        shown = {key: self._capacity_rules[key](value) for key, value in capacity.items()}
        return shown if self._visible.shows(capacity["object"]["namespace"]) else _hide_group(shown)

    def hide_names(self, text: str) -> str:
        """Return a text without the names of nodes, pools and devices, unless nodes may be listed."""
        return text if self._visible.nodes else _CHUNK.sub(self._hide_chunk, text)

    def hide_consumers(self, text: str) -> str:
        """Return the message of a denial without hidden names, and without the top consumers of a shared cap."""
        text = text if self._visible.namespaces is None else hide_top_namespaces(text)
        return self.hide_names(text)

    def _hide_chunk(self, match: re.Match[str]) -> str:
        chunk = match[0].rstrip("._/-")
        end, parts = match[0][len(chunk) :], chunk.split("/")
        if len(parts) > 1 and parts[0] in self._drivers:
            return f"{HIDDEN_DEVICE}{end}"
        return "/".join(HIDDEN_NODE if part in self._nodes else part for part in parts) + end

    def _hide_in_texts(self, value: Any) -> Any:
        """Return plain data whose texts have no hidden names."""
        if isinstance(value, str):
            return self.hide_consumers(value)
        if isinstance(value, list):
            return list(map(self._hide_in_texts, value))
        return {key: self._hide_in_texts(item) for key, item in value.items()} if isinstance(value, dict) else value

    def _hide_unknown(self, text: str) -> str:
        if text.startswith(_UNKNOWN_LABELS) and self._visible.namespaces is not None:
            return _UNKNOWN_LABELS
        if self._devices_problem:
            text = text.replace(self._devices_problem, "an object about them is not known or cannot be read")
        return self.hide_names(text)

    def _hide_nodes(self, records: Iterable[Dict]) -> list[Dict]:
        return [record | {"node": self._show(record["node"])} for record in records]

    def _sort_hidden_nodes(self, records: Sequence[Dict]) -> list[Dict]:
        """Return the copies by node; without names by their number, since the order would tell nodes apart."""
        if self._visible.nodes:
            return list(records)
        return sorted(self._hide_nodes(records), key=itemgetter("copies"), reverse=True)

    def _hide_devices(self, devices: Iterable[Dict]) -> list[Dict]:
        return [device | {key: self._show(device[key]) for key in ("node", "pool", "device")} for device in devices]

    def _show(self, name: str) -> str | None:
        return name if self._visible.nodes else None

    def merge_unhealthy(self, unhealthy: Sequence[Dict]) -> list[Dict]:
        """Return the unhealthy devices by node, or their sums by resource."""
        if self._visible.nodes:
            return list(unhealthy)
        sums: dict[str, Dict] = {}
        for each in unhealthy:
            total = sums.setdefault(each["resource"], {**each, "node": None, "unhealthy": 0, "capacity": 0})
            total["unhealthy"] += each["unhealthy"]
            total["capacity"] += each["capacity"]
        return list(sums.values())

    def _redact_eviction(self, eviction: Dict) -> Dict:
        shown = {**eviction, "node": self._show(eviction["node"]), **self._count_hidden("pods", eviction["pods"])}
        if "claims" in eviction:
            shown["claims"] = [
                {
                    "claim": claim["claim"] if self._shows_claim(claim["claim"]) else None,
                    "devices": [pool | {"pool": self._show(pool["pool"])} for pool in claim["devices"]],
                }
                for claim in eviction["claims"]
            ]
        return shown

    def _count_hidden(self, key: str, pods: Sequence[Dict]) -> Dict:
        """Return the pods of namespaces that are shown, under a key, and the number of the others."""
        shown = [pod for pod in pods if self._visible.shows(pod["namespace"])]
        return {key: shown, f"hidden{key.capitalize()}": len(pods) - len(shown)}

    def _shows_claim(self, claim: str) -> bool:
        """Return whether the name of a claim is shown: `namespace/name`."""
        return self._visible.shows(claim.partition("/")[0])

    def _redact_diagnosis(self, diagnosis: Dict) -> Dict:
        return {
            **diagnosis,
            "node": self._show(diagnosis["node"]),
            "reasons": self._hide_in_texts(diagnosis["reasons"]),
            **self._count_hidden("consumers", diagnosis["consumers"]),
            "deviceShortfalls": [
                shortfall | {"pools": list(map(self._redact_pool, shortfall["pools"]))}
                for shortfall in diagnosis["deviceShortfalls"]
            ],
        }

    def _redact_pool(self, pool: Dict) -> Dict:
        """Return the devices that one pool lacks; those that hidden claims have are one number."""
        shown = [
            holder for holder in pool["allocated"] if holder["claim"] is not None and self._shows_claim(holder["claim"])
        ]
        copies = [holder for holder in pool["allocated"] if holder["claim"] is None]
        hidden = sum(holder["devices"] for holder in pool["allocated"]) - sum(
            holder["devices"] for holder in (*shown, *copies)
        )
        return {
            **pool,
            "pool": self._show(pool["pool"]),
            "problem": self._hide_in_texts(pool["problem"]),
            "allocated": [*shown, *copies],
            "hiddenAllocated": hidden,
            "unsuitable": self._redact_mismatches(pool["unsuitable"]),
        }

    def _redact_mismatches(self, mismatches: Iterable[Dict]) -> list[Dict]:
        """Return the numbers of devices by the reason why they do not suit; no claim has a name unless all have."""
        counts = Counter[str]()
        for each in mismatches:
            reason = each["reason"] if self._visible.namespaces is None else hide_holders(each["reason"])
            counts[self.hide_names(reason)] += each["devices"]
        return [{"reason": reason, "devices": count} for reason, count in counts.items()]

    def _redact_remedies(self, remedies: Iterable[Dict]) -> list[Dict]:
        """Return the changes with the number of their nodes; those of hidden claims are one change."""
        nodes_by_change: dict[str, dict[str, None]] = {}
        changes: dict[str, str] = {}
        for remedy in remedies:
            namespace = find_namespace_of_deleted(remedy["change"])
            is_hidden = namespace is not None and not self._visible.shows(namespace)
            change = _OTHER_CLAIM if is_hidden else self.hide_names(remedy["change"])
            nodes_by_change.setdefault(change, {}).update(dict.fromkeys(remedy["nodes"]))
            changes.setdefault(change, remedy["changes"])
        return [
            {
                "change": change,
                "nodes": list(nodes) if self._visible.nodes else [],
                "nodeCount": len(nodes),
                "changes": changes[change],
            }
            for change, nodes in nodes_by_change.items()
        ]


def _hide_group(record: Dict) -> Dict:
    """Return a record without the names that its texts have from the others of a PodGroup, in the same namespace."""
    texts = {key: record[key] for key in ("message", "holdReason") if record.get(key)}
    return {
        **record,
        **{key: hide_group_members(text) for key, text in texts.items()},
        "unknown": list(map(hide_group_members, record["unknown"])),
    }


def _keep(value: Any) -> Any:
    return value


_PLAIN_KEYS: Final = (
    *("object", "verdict", "copies", "placed", "of", "feasibleNodes", "largest", "suggestions", "scattered"),
    *("scheduler", "onePerNode", "gates"),
)
"""What has no names, or those that the asker wrote."""
_TEXT_KEYS: Final = ("message", "holdReason", "rejected", "newNodes")
"""What may have names of nodes in its texts."""
