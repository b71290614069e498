"""What may be wrong with replicas: their health, policies, watches and clocks."""

from datetime import timedelta

from tests.cli.doctor.changes import FAIL, UNKNOWN, UNSEEN, WARN, Cases, only
from tests.cli.doctor.world import deployment, lease, metrics, replica, with_check
from webhook.cli.doctor.facts import Replica

CASES: Cases = {
    "no replica runs": (
        {"replicas": ()},
        {"replicas": FAIL, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN},
    ),
    "no replica runs, and none has left a Lease": (
        {"replicas": (), "lease": None},
        {"replicas": FAIL, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN, "leader": UNKNOWN},
    ),
    "replicas cannot be asked": (
        {"replicas": UNSEEN},
        {"replicas": UNKNOWN, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN},
    ),
    "one replica cannot be asked": (
        {"replicas": (Replica("pod-a", UNSEEN, UNSEEN), replica("pod-b"))},
        {"replicas": UNKNOWN, "policies": UNKNOWN, "watches": UNKNOWN},
    ),
    "a replica is not ready": (
        only(readiness=with_check("serving", ready=False) | {"status": "not ready"}),
        {"replicas": FAIL},
    ),
    "a replica tells of a trouble": (only(readiness=with_check("ledgers", failure="forbidden")), {"replicas": WARN}),
    "fewer are ready than wanted": ({"deployment": deployment(3, 2)}, {"replicas": WARN}),
    "several versions run": (
        only(told=metrics(build_info=[({"version": "0.9", "python": "3.11"}, 1.0)])),
        {"replicas": WARN},
    ),
    "replicas are of another version than we are": ({"version": "2.0"}, {"replicas": WARN}),
    "the policy files are broken": (only(readiness=with_check("policies", broken=["a.yaml:1"])), {"policies": FAIL}),
    "the metrics say that they are broken": (only(told=metrics(policy_broken=1.0)), {"policies": FAIL}),
    "replicas go by different policies": (only(readiness=with_check("policies", digest="feed")), {"policies": WARN}),
    "nothing is in force": (only(told=metrics(policy_rules=0.0, policy_caps=0.0)), {"policies": WARN}),
    "a watch is old": (
        only(told=metrics(watch_age_seconds=[({"resource": "pods"}, 121.0)])),
        {"watches": FAIL},
    ),
    "pods were never listed": (
        only(readiness=with_check("watches", pods={"objects": 0, "revision": None, "stale": "forbidden"})),
        {"watches": FAIL},
    ),
    "nodes were never listed": (
        only(readiness=with_check("watches", nodes={"objects": 0, "revision": None})),
        {"watches": WARN},
    ),
    "the keeper of certificates complains": (
        only(readiness=with_check("certificate-rotation", ready=True, complaint="the Secret was edited by hand")),
        {"replicas": WARN},
    ),
    "a replica's clock is ahead": (only(ahead=20.0), {"clocks": WARN}),
    "a replica's clock is far behind": (only(ahead=-400.0), {"clocks": FAIL}),
    "the keeper's clock is ahead": ({"lease": lease(timedelta(seconds=30))}, {"clocks": WARN}),
    "the API server tells no time": ({"clock_offset": None}, {"clocks": UNKNOWN}),
}
