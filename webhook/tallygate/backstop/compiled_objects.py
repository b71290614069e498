"""The metadata by which compiled objects are found, pruned and compared with the policies.

An object is a tree of JSON values, as it is printed and applied.
"""

from typing import Any, Final

from tallygate.policy.model import COMPILED_FROM_LABEL, Enforcement

CompiledObject = dict[str, Any]
"""An object of Kubernetes as JSON values: apiVersion, kind, metadata and spec."""

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
POLICY_LABEL: Final = "tallygate.dev/policy"
"""The label with the name of the policy: at most 63 characters, by the rule for names of policies."""
DIGEST_ANNOTATION: Final = "tallygate.dev/digest"
"""The annotation with the digest of the policy set that an object was compiled from."""

NAME_PREFIX: Final = "tallygate-"
"""The prefix of the names of compiled objects."""

MAX_PARTS: Final = 4
"""Maximum number of ValidatingAdmissionPolicies for the rules of one enforcement: RBAC names them all."""


def list_part_names(enforcement: Enforcement) -> tuple[str, ...]:
    """Return the names of the policies for the rules of an enforcement, and of their bindings, in the order of use."""
    first = f"{NAME_PREFIX}rules-{enforcement}"
    return (first, *(f"{first}-{number}" for number in range(2, MAX_PARTS + 1)))


POLICY_NAMES: Final = tuple(name for enforcement in Enforcement for name in list_part_names(enforcement))
"""The names that ValidatingAdmissionPolicies of rules, and their bindings, may have."""


def create_metadata(name: str, policy_kind: str, policy_name: str, digest: str, namespace: str = "") -> CompiledObject:
    """Return the metadata of a compiled object; one without a namespace is of the cluster.

    An object of several policies has no `policy_name`, and then no label with it.

    `policy_kind` is the kind of the document, such as `NamespaceCap`; `digest` is that of the policy set.
    """
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {
            MANAGED_BY_LABEL: "tallygate",
            COMPILED_FROM_LABEL: policy_kind,
            **({POLICY_LABEL: policy_name} if policy_name else {}),
        },
        "annotations": {DIGEST_ANNOTATION: digest},
    }
