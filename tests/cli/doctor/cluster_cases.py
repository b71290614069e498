"""Cases around the gate: its permissions, the quotas of namespaces, and opaque resource names."""

from tallygate.webhook.cli.doctor.facts import OpaqueNameUser
from tests.cli.doctor.fact_changes import (
    FAIL,
    UNAVAILABLE,
    UNKNOWN,
    WARN,
    Cases,
    create_cap_limits,
    exclude_permissions,
    quota,
)

CASES: Cases = {
    "a permission is missing": (
        {"permissions": exclude_permissions("delete leases.coordination.k8s.io")},
        {"permissions": FAIL},
    ),
    "a permission is missing that may not be needed": (
        {
            "permissions": exclude_permissions("delete leases.coordination.k8s.io"),
            "deployment": UNAVAILABLE,
            "replicas": UNAVAILABLE,
        },
        {
            "permissions": WARN,
            "failure-policy": UNKNOWN,
            "replicas": UNKNOWN,
            "policies": UNKNOWN,
            "watches": UNKNOWN,
            "ledgers": UNKNOWN,
        },
    ),
    "permissions cannot be read": ({"permissions": UNAVAILABLE}, {"permissions": UNKNOWN}),
    "a quota below a cap": (
        {"quotas": (quota({"requests.nvidia.com/gpu": "2"}),), "cap_limits": create_cap_limits()},
        {"quotas": WARN},
    ),
    "a quota above a cap": (
        {"quotas": (quota({"limits.cpu": "3"}),), "cap_limits": create_cap_limits()},
        {"quotas": WARN},
    ),
    "quotas cannot be listed": ({"quotas": UNAVAILABLE}, {"quotas": UNKNOWN}),
    "caps are unknown": ({"cap_limits": UNAVAILABLE}, {"quotas": UNKNOWN}),
    "a node advertises an opaque name": (
        {"opaque_name_users": (OpaqueNameUser("Node", "", "n1", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "a pod requests an opaque name": (
        {"opaque_name_users": (OpaqueNameUser("Pod", "team-a", "p", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "nodes and pods cannot be listed": ({"opaque_name_users": UNAVAILABLE}, {"opaque-names": UNKNOWN}),
}
