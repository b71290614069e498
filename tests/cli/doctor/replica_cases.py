"""Cases of replicas: their health, policies, watches and clocks."""

from datetime import timedelta

from tallygate.cli.doctor.facts import Replica
from tests.cli.doctor.fact_changes import FAIL, UNAVAILABLE, UNKNOWN, WARN, Cases, change_first_replica
from tests.cli.doctor.healthy_gate import create_lease, deployment, metrics, replica, with_check

CASES: Cases = {
    "no replica runs": (
        {"replicas": ()},
        {"replicas": FAIL, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN},
    ),
    "no replica runs, and the Lease is missing": (
        {"replicas": (), "lease": None},
        {"replicas": FAIL, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN, "leader": UNKNOWN},
    ),
    "replicas cannot be reached": (
        {"replicas": UNAVAILABLE},
        {"replicas": UNKNOWN, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN},
    ),
    "one replica cannot be reached": (
        {"replicas": (Replica("pod-a", UNAVAILABLE, UNAVAILABLE), replica("pod-b"))},
        {"replicas": UNKNOWN, "policies": UNKNOWN, "watches": UNKNOWN},
    ),
    "a replica is not ready": (
        change_first_replica(readiness=with_check("serving", ready=False) | {"status": "not ready"}),
        {"replicas": FAIL},
    ),
    "a replica reports a failure": (
        change_first_replica(readiness=with_check("ledgers", failure="forbidden")),
        {"replicas": WARN},
    ),
    "fewer replicas are ready than desired": ({"deployment": deployment(3, 2)}, {"replicas": WARN}),
    "several versions run": (
        change_first_replica(samples=metrics(build_info=[({"version": "0.9", "python": "3.11"}, 1.0)])),
        {"replicas": WARN},
    ),
    "replicas have another version than doctor": ({"version": "2.0"}, {"replicas": WARN}),
    "the policy files are broken": (
        change_first_replica(readiness=with_check("policies", broken=["a.yaml:1"])),
        {"policies": FAIL},
    ),
    "the metrics report broken policy files": (
        change_first_replica(samples=metrics(policy_broken=1.0)),
        {"policies": FAIL},
    ),
    "replicas have different policies": (
        change_first_replica(readiness=with_check("policies", digest="feed")),
        {"policies": WARN},
    ),
    "no rule or cap is active": (
        change_first_replica(samples=metrics(policy_rules=0.0, policy_caps=0.0)),
        {"policies": WARN},
    ),
    "a watch is old": (
        change_first_replica(samples=metrics(watch_age_seconds=[({"resource": "pods"}, 121.0)])),
        {"watches": FAIL},
    ),
    "pods were never listed": (
        change_first_replica(
            readiness=with_check("watches", pods={"objects": 0, "revision": None, "stale": "forbidden"})
        ),
        {"watches": FAIL},
    ),
    "nodes were never listed": (
        change_first_replica(readiness=with_check("watches", nodes={"objects": 0, "revision": None})),
        {"watches": WARN},
    ),
    "the certificate reconciler reports a problem": (
        change_first_replica(
            readiness=with_check("certificate-rotation", ready=True, failure="the Secret was edited by hand")
        ),
        {"replicas": WARN},
    ),
    "a replica's clock is ahead": (change_first_replica(ahead=20.0), {"clocks": WARN}),
    "a replica's clock is far behind": (change_first_replica(ahead=-400.0), {"clocks": FAIL}),
    "the leader's clock is ahead": ({"lease": create_lease(timedelta(seconds=30))}, {"clocks": WARN}),
    "the API server sends no date": ({"clock_offset": None}, {"clocks": UNKNOWN}),
}
