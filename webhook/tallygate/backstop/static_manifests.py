"""Compiled policies as files that an API server loads at its start (KEP-5793, beta in Kubernetes 1.37).

Such objects are active before the API server serves requests, need no etcd, and cannot be read, changed or deleted by
its API. Only ValidatingAdmissionPolicies and their bindings have this form: ResourceQuotas are counted in etcd. The
names of policies and bindings end in `.static.k8s.io`, a binding names a policy of the same folder, and there are no
parameters. Source: pkg/admission/plugin/policy/manifest/loader/loader.go in k8s.io/apiserver, v1.37.

Policies of the API are not evaluated for policies; static ones are, and for webhook configurations too. So one of them
can protect the registration of the gate.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from tallygate.admission.cel_texts import join_any, quote, quote_list
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.backstop.compiled_objects import NAME_PREFIX, CompiledObject, create_metadata

STATIC_SUFFIX: Final = ".static.k8s.io"
"""The end of the names of static manifests, which no object of the API may have."""

_VERSION: Final = "admissionregistration.k8s.io/v1"
_POLICY, _BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
_REGISTRATION: Final = "registration"


def create_static_manifests(compiled: Iterable[CompiledObject]) -> list[CompiledObject]:
    """Return the policies and bindings among compiled objects as static manifests; other objects are left out."""
    return [_rename(content) for content in compiled if content["kind"] in {_POLICY, _BINDING}]


def create_registration_policy(users: Sequence[str], groups: Sequence[str], digest: str) -> list[CompiledObject]:
    """Return a static policy, and its binding, that lets only these users change or delete the gate's registration.

    These are its MutatingWebhookConfiguration and its ValidatingWebhookConfiguration. The name is compared with that of
    the stored object: the deletion of a whole collection has no name in its request.
    """
    conditions = [f"request.userInfo.username in {quote_list(sorted(users))}"] if users else []
    if groups:
        conditions.append(f"request.userInfo.?groups.orValue([]).exists(group, group in {quote_list(sorted(groups))})")
    allowed = ", ".join([*sorted(users), *(f"group {group}" for group in sorted(groups))])
    policy = {
        "apiVersion": _VERSION,
        "kind": _POLICY,
        "metadata": create_metadata(_get_name(_REGISTRATION), _REGISTRATION, CONFIGURATION_NAME, digest),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["admissionregistration.k8s.io"],
                        "apiVersions": ["*"],
                        "operations": ["UPDATE", "DELETE"],
                        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                    }
                ]
            },
            "matchConditions": [
                {"name": "registers-the-gate", "expression": f"oldObject.metadata.name == {quote(CONFIGURATION_NAME)}"}
            ],
            "validations": [
                {
                    "expression": join_any(conditions),
                    "message": f"only these may change or delete the registration of tallygate: {allowed}",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding = {
        "apiVersion": _VERSION,
        "kind": _BINDING,
        "metadata": create_metadata(_get_name(_REGISTRATION), _REGISTRATION, CONFIGURATION_NAME, digest),
        "spec": {"policyName": _get_name(_REGISTRATION), "validationActions": ["Deny"]},
    }
    return [policy, binding]


def _rename(content: CompiledObject) -> CompiledObject:
    metadata = {**content["metadata"], "name": f"{content['metadata']['name']}{STATIC_SUFFIX}"}
    spec = content["spec"]
    if content["kind"] == _BINDING:
        spec = {**spec, "policyName": f"{spec['policyName']}{STATIC_SUFFIX}"}
    return {**content, "metadata": metadata, "spec": spec}


def _get_name(name: str) -> str:
    return f"{NAME_PREFIX}{name}{STATIC_SUFFIX}"
