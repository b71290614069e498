"""The usage of a namespace as plain data, as far as its asker may see it.

Amounts are milli-cpu for cpu and whole units otherwise. The items are those of `tallygate usage -o json`.
"""

from datetime import datetime
from typing import Any

from tallygate.accounting.amounts import is_milli
from tallygate.answers.answer_json import Redactor, VisibleNames
from tallygate.answers.columns import API_VERSION, Column, Columns
from tallygate.answers.namespace_usage import Holder, LedgerHolders, NamespaceUsage, QuotaLine
from tallygate.answers.startable_pods import StartableShape, StartLimit
from tallygate.answers.usage_columns import LINES
from tallygate.answers.usage_report import format_time
from tallygate.answers.waiting_pods import WaitingPods
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.refusal_events import ReportedRefusals

Dict = dict[str, Any]


def convert_usage(usage: NamespaceUsage, state: ClusterState, as_of: datetime, visible: VisibleNames) -> Dict:
    """Return the usage of a namespace of this state, as its asker may see it.

    `as_of` is the time up to which the state is known.
    """
    redactor = Redactor(state, visible)
    unhealthy = [devices.to_dict() for devices in usage.report.unhealthy]
    return {
        "apiVersion": API_VERSION,
        "kind": "AskUsage",
        "revision": None if usage.revision is None else str(usage.revision),
        "asOf": format_time(as_of),
        "namespace": usage.namespace,
        "items": [_hide_remarks(LINES.to_dict(line), redactor) for line in usage.report.lines],
        "notes": list(map(redactor.hide_names, usage.report.notes)),
        "unhealthy": redactor.merge_unhealthy(unhealthy),
        "quotas": None if usage.quotas is None else list(map(QUOTAS.to_dict, usage.quotas)),
        "holders": None if usage.holders is None else list(map(_convert_holders, usage.holders)),
        "startable": None
        if usage.startable is None
        else [_convert_shape(shape, redactor) for shape in usage.startable],
        "waiting": None if usage.waiting is None else [_convert_waiting(pods, redactor) for pods in usage.waiting],
        **_convert_reported(usage.reported, redactor, visible),
    }


def _convert_reported(reported: ReportedRefusals, redactor: Redactor, visible: VisibleNames) -> Dict:
    """Return what is reported about pods that are not stored; Events only for who may list them."""
    rejected, refusals = reported.rejected, reported.refusals if visible.events else None
    return {
        "rejected": None
        if rejected is None
        else [
            {
                "object": {"kind": pods.kind, "namespace": pods.namespace, "name": pods.name},
                "pods": pods.number,
                "message": redactor.hide_consumers(pods.message),
            }
            for pods in rejected
        ],
        "refusals": None
        if refusals is None
        else [
            {
                "kind": refusal.kind,
                "name": refusal.name,
                "times": refusal.times,
                "last": format_time(refusal.last),
                "message": redactor.hide_consumers(refusal.message),
            }
            for refusal in refusals
        ],
        "unknown": list(reported.unknown),
    }


QUOTAS = Columns[QuotaLine](
    Column("QUOTA", "quota"),
    Column("RESOURCE", "resource", lambda line: line.name),
    Column("", "unit", lambda line: "milli" if is_milli(line.name) else "whole"),
    Column("HARD", "hard"),
    Column("USED", "used"),
    Column("FREE", "free"),
)
"""The keys of ResourceQuotas."""


def _hide_remarks(line: Dict, redactor: Redactor) -> Dict:
    return line | {"remarks": list(map(redactor.hide_names, line["remarks"]))}


def _convert_holders(holders: LedgerHolders) -> Dict:
    cap, key, members = holders.chosen
    return {
        "cap": cap.definition.name,
        "group": cap.group or None,
        "namespace": key.namespace or None,
        "namespaces": len(members),
        "holders": list(map(_convert_holder, holders.holders)),
        "more": holders.more,
        "others": dict(holders.others),
        "byNamespace": None
        if holders.by_namespace is None
        else [{"namespace": name, "amounts": dict(amounts)} for name, amounts in holders.by_namespace],
    }


def _convert_holder(holder: Holder) -> Dict:
    consumer = holder.consumer
    return {
        "kind": consumer.kind.value,
        "namespace": consumer.namespace,
        "name": consumer.name,
        "workload": holder.workload or None,
        "state": consumer.state.value,
        "amounts": dict(consumer.amounts),
    }


def _convert_shape(shape: StartableShape, redactor: Redactor) -> Dict:
    tightest = shape.tightest
    return {
        "pods": shape.pods,
        "workloads": list(shape.workloads),
        "requests": dict(shape.requests),
        "copies": None if tightest is None else tightest.copies,
        "atLeast": tightest is not None and tightest.is_least,
        "limits": list(map(LIMITS_OF_START.to_dict, shape.limits)),
        "unknown": list(map(redactor.hide_names, shape.unknown)),
    }


LIMITS_OF_START = Columns[StartLimit](
    Column("LIMIT", "by"),
    Column("NAME", "name", lambda limit: limit.name or None),
    Column("RESOURCE", "resource", lambda limit: limit.resource or None),
    Column("MORE", "copies"),
    Column("", "atLeast", lambda limit: limit.is_least),
)
"""The limits of further pods of a shape."""


def _convert_waiting(waiting: WaitingPods, redactor: Redactor) -> Dict:
    return {
        "pods": waiting.number,
        "names": list(waiting.names),
        "verdict": None if waiting.verdict is None else waiting.verdict.value,
        "sentence": redactor.hide_names(waiting.sentence),
    }
