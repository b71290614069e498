"""What may be wrong around the gate: its rights, others' quotas, and names of long ago."""

from tests.cli.doctor.changes import FAIL, UNKNOWN, UNSEEN, WARN, Cases, capped, quota, without
from webhook.cli.doctor.facts import OpaqueNameUser

CASES: Cases = {
    "a right is missing": ({"permissions": without("delete leases.coordination.k8s.io")}, {"permissions": FAIL}),
    "a right is missing that may not be needed": (
        {"permissions": without("delete leases.coordination.k8s.io"), "deployment": UNSEEN, "replicas": UNSEEN},
        {
            "permissions": WARN,
            "failure-policy": UNKNOWN,
            "replicas": UNKNOWN,
            "policies": UNKNOWN,
            "watches": UNKNOWN,
            "ledgers": UNKNOWN,
        },
    ),
    "rights cannot be asked": ({"permissions": UNSEEN}, {"permissions": UNKNOWN}),
    "a quota below a cap": (
        {"quotas": (quota({"requests.nvidia.com/gpu": "2"}),), "cap_limits": capped()},
        {"quotas": WARN},
    ),
    "a quota above a cap": ({"quotas": (quota({"limits.cpu": "3"}),), "cap_limits": capped()}, {"quotas": WARN}),
    "quotas cannot be listed": ({"quotas": UNSEEN}, {"quotas": UNKNOWN}),
    "caps are not known": ({"cap_limits": UNSEEN}, {"quotas": UNKNOWN}),
    "a node advertises an opaque name": (
        {"opaque_name_users": (OpaqueNameUser("Node", "", "n1", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "a pod asks for an opaque name": (
        {"opaque_name_users": (OpaqueNameUser("Pod", "team-a", "p", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "nodes and pods cannot be listed": ({"opaque_name_users": UNSEEN}, {"opaque-names": UNKNOWN}),
}
