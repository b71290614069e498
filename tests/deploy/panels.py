"""The panels of the Grafana dashboard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_SELECTED: Final = '{cap=~"$cap",resource=~"$resource"}'


@dataclass(frozen=True)
class Panel:
    """One graph: lines by their legend, in a unit of Grafana's; `about` is the text behind the title."""

    title: str
    about: str
    lines: Mapping[str, str]
    unit: str = "short"


@dataclass(frozen=True)
class Row:
    """Panels that belong together."""

    title: str
    panels: Sequence[Panel]


ROWS: Final = (
    Row(
        "Reviews",
        (
            Panel(
                "Decisions",
                "Reviews that were decided, per second.",
                {"{{phase}} {{verdict}}": "phase_verdict:tallygate_admission_requests:rate5m"},
                "reqps",
            ),
            Panel(
                "Duration of a review, p99",
                "From the arrival of a request to its response.",
                {"{{phase}}": "phase:tallygate_admission_duration_seconds:p99_5m"},
                "s",
            ),
            Panel(
                "Not decided, by reason",
                "undecided and crash are the gate's own fault; the cluster's failurePolicy decides then.",
                {"{{reason}}": "sum by (reason) (rate(tallygate_admission_failures_total[5m]))"},
                "reqps",
            ),
            Panel(
                "Share of created pods that were reviewed",
                "Of the pods that the watch delivers. Dry runs and pods that others reject count as reviewed.",
                {
                    "share": 'sum(rate(tallygate_admission_requests_total{phase="validate",operation="CREATE",'
                    'kind="Pod",verdict="allow"}[5m])) / max(rate(tallygate_watch_added_total{resource="pods"}[5m]))'
                },
                "percentunit",
            ),
            Panel(
                "Policies, by what is asked about for them",
                "every-pod: each pod of their namespaces. waiting: not registered yet.",
                {"{{reach}}": "max by (reach) (tallygate_asked_policies)"},
            ),
        ),
    ),
    Row(
        "Caps",
        (
            Panel(
                "How full caps are",
                "Used and reserved, divided by the hard limits of all ledgers of a cap. 1 is full.",
                {"{{cap}} {{resource}}": f"cap_resource:tallygate_cap_charged:ratio{_SELECTED}"},
                "percentunit",
            ),
            Panel(
                "The fullest namespaces",
                "Of each cap the fullest few; without a namespace where it is shared.",
                {
                    "{{cap}} {{cap_namespace}} {{cap_group}} {{resource}}": "max by "
                    "(cap, cap_namespace, cap_group, resource) "
                    f"(tallygate_cap_utilization_ratio{_SELECTED})",
                },
                "percentunit",
            ),
            Panel(
                "Used, reserved, hard",
                "Reserved falls back within seconds; if it stays, something behind the gate rejects the pods.",
                {
                    "{{cap}} {{resource}} " + part: f"cap_resource:tallygate_cap_{part}:max{_SELECTED}"
                    for part in ("used", "reserved", "hard")
                },
            ),
            Panel(
                "Rejections, by reason",
                "excess, no-limit and workload are what caps are for. Every other reason needs attention.",
                {"{{cap}} {{reason}}": 'cap_reason:tallygate_cap_rejections:rate5m{cap=~"$cap"}'},
                "reqps",
            ),
            Panel(
                "Ledgers that are not available",
                "Full, exceeded, or reserving nothing yet.",
                {"{{cap}} {{state}}": 'cap_state:tallygate_cap_ledgers:max{cap=~"$cap",state!="available"}'},
            ),
            Panel(
                "Caps exceeded by privilege, and drift",
                "Pods of privileged users that exceed a cap; and recounts that found pods that bypassed the gate.",
                {
                    "{{cap}} exceeded": 'sum by (cap) (increase(tallygate_cap_exceeded_total{cap=~"$cap"}[15m]))',
                    "{{cap}} drift": 'sum by (cap) (increase(tallygate_ledger_drift_total{cap=~"$cap"}[15m]))',
                },
            ),
        ),
    ),
    Row(
        "Ledgers",
        (
            Panel(
                "Duration of a write, p99",
                "By result. Every create under a cap in the cluster waits for one.",
                {"{{result}}": "result:tallygate_ledger_write_duration_seconds:p99_5m"},
                "s",
            ),
            Panel(
                "Writes, by result",
                "conflict: another replica had written, and it is tried again.",
                {"{{result}}": "result:tallygate_ledger_writes:rate5m"},
                "wps",
            ),
            Panel(
                "Callers that share a write",
                "More with more creates at once: that is how a ledger keeps up.",
                {"mean": "tallygate_ledger_batch_size:mean5m"},
            ),
            Panel(
                "Reservations",
                "Of the ledger that has the most; and the number that expired.",
                {
                    "{{cap}} most in a ledger": 'max by (cap) (tallygate_cap_reservations_max{cap=~"$cap"})',
                    "expired, an hour": "sum(increase(tallygate_reservations_expired_total[1h]))",
                },
            ),
            Panel(
                "Reconciliations by the leader",
                "failed: /readyz has the reason.",
                {
                    "{{result}}": "sum by (result) (rate(tallygate_ledger_reconcile_total[5m]))",
                    "leaders": "sum(tallygate_leader)",
                },
                "ops",
            ),
            Panel(
                "Observed last",
                "The age of the oldest ledger of each cap; it should be below 300 s.",
                {"{{cap}}": 'min by (cap) (tallygate_cap_sync_age_seconds{cap=~"$cap"})'},
                "s",
            ),
        ),
    ),
    Row(
        "What is stored (with audits on a schedule)",
        (
            Panel(
                "Findings of the last audit",
                "By policy and by how strictly it is enforced: work for the owners of what was found.",
                {
                    "{{policy}} {{enforcement}}": "max by (policy, enforcement) (tallygate_audit_findings)",
                },
            ),
            Panel(
                "Age of the last audit",
                "Above twice the interval, TallygateAuditStale fires after an hour.",
                {
                    "age": "time() - max(tallygate_audit_last_success_timestamp_seconds)",
                    "interval": "max(tallygate_audit_interval_seconds)",
                    "took": "max(tallygate_audit_duration_seconds)",
                },
                "s",
            ),
            Panel(
                "Audits, reports",
                "In an hour. failed: the check audit of /readyz has the reason.",
                {
                    "audits {{result}}": "sum by (result) (increase(tallygate_audit_runs_total[1h]))",
                    "reports {{result}}": "sum by (result) (increase(tallygate_audit_reports_total[1h]))",
                },
            ),
        ),
    ),
    Row(
        "Amounts on nodes (with publish_nodes)",
        (
            Panel(
                "Amounts of NodeResources, by state",
                "problem: node-resources in /readyz of the leader has the reason. retained: pods use more.",
                {"{{state}}": "max by (state) (tallygate_node_resource_amounts)"},
            ),
            Panel(
                "Writes of amounts",
                "written without new nodes: another client changes amounts. failed: node-resources-failed.",
                {"{{result}}": "sum by (result) (rate(tallygate_node_resource_writes_total[5m]))"},
                "wps",
            ),
        ),
    ),
    Row(
        "Relays (with the component of that name)",
        (
            Panel(
                "Answers to API servers, by status",
                "5xx: no gate answered, or the gate could not decide.",
                {
                    "{{code}}": "sum by (code) "
                    '(rate(haproxy_backend_http_responses_total{proxy="to_any_gate",code=~"2xx|4xx|5xx"}[5m]))'
                },
                "reqps",
            ),
            Panel(
                "Answers of gates",
                "own: the gate in the same pod. peer: another replica, since the own one is down.",
                {"{{server}}": 'sum by (server) (rate(haproxy_server_http_responses_total{proxy="any_gate"}[5m]))'},
                "reqps",
            ),
            Panel(
                "Gates that are ready, as their relays see them",
                "0 for longer than a restart: see the container tallygate of the pod.",
                {"{{instance}}": 'haproxy_server_status{proxy="any_gate",server="own",state="UP"}'},
            ),
        ),
    ),
    Row(
        "Watches, and the process",
        (
            Panel(
                "Age of the stores",
                "From 120 s on it is stale.",
                {"{{instance}} {{resource}}": "tallygate_watch_age_seconds"},
                "s",
            ),
            Panel(
                "Restarts of watches",
                "ended is ordinary.",
                {"{{resource}} {{reason}}": "sum by (resource, reason) (rate(tallygate_watch_restarts_total[5m]))"},
                "ops",
            ),
            Panel(
                "Objects in the stores",
                "Memory goes by pods.",
                {"{{resource}}": "max by (resource) (tallygate_watch_objects)"},
            ),
            Panel(
                "CPU",
                "Of each replica; one Python process uses little more than one core.",
                {"{{instance}}": "rate(process_cpu_seconds_total[5m]) and on (job, instance) tallygate_build_info"},
                "percentunit",
            ),
            Panel(
                "Memory",
                "Resident.",
                {"{{instance}}": "process_resident_memory_bytes and on (job, instance) tallygate_build_info"},
                "bytes",
            ),
            Panel(
                "Certificate, policies",
                "Days until the certificate expires; 1 while policy files are broken.",
                {
                    "{{instance}} days": "(tallygate_certificate_not_after_timestamp_seconds - time()) / 86400",
                    "{{instance}} broken": "tallygate_policy_broken",
                },
            ),
        ),
    ),
)
