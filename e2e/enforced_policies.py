"""Admission policies that an API server certainly enforces: a marker, created after them, shows that it has read them.

An API server evaluates the policies and bindings that its watches have brought, all of them from the same moment on
(policySource in k8s.io/apiserver pkg/admission/plugin/policy/generic/policy_source.go, v1.37). Each watch brings the
objects of its kind in the order of their changes. So an API server that evaluates the marker evaluates whatever was
created before it, and nothing that was deleted before it. The marker reads a label of the namespace, whose labels are
set before: an API server that shows the mark has the other labels of the namespace too.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from e2e.api import Answer, Api, Object, api
from e2e.ports import Cluster
from e2e.waiting import until
from tallygate.policy.model import COMPILED_FROM_LABEL

_WITHIN = 240.0  # seconds
_PATH: Final = "/apis/admissionregistration.k8s.io/v1"
_RESOURCES: Final = {
    "ValidatingAdmissionPolicy": f"{_PATH}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_PATH}/validatingadmissionpolicybindings",
}
_MARK: Final = "tallygate-marker"
_DENIAL: Final = re.compile(
    r"ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding '[^']+' denied request: (?P<text>.*)", re.DOTALL
)
_WARNING: Final = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding '[^']+': (?P<text>.*)", re.DOTALL
)


@dataclass
class PolicyMarker:
    """The compiled policies of one moment; those of the former moment are deleted when the next ones are enforced."""

    cluster: Cluster
    _numbers: Iterator[int] = field(default_factory=partial(itertools.count, 1))

    @property
    def _client(self) -> Api:
        return api(self.cluster.kubeconfig)

    def enforce(self, objects: Sequence[Object], labels: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
        """Set the labels of the namespaces and replace the policies, wait for both, and return all labels.

        An audit rule warns as well, so that an answer has its message.

        Raises:
            ClusterError: if the API server refuses an object, or does not enforce it in time.
        """
        self.remove()
        number = next(self._numbers)
        stored = {namespace: self._set_labels(namespace, own, number) for namespace, own in labels.items()}
        for content in objects:
            if content["kind"] in _RESOURCES:
                self._client.create(_RESOURCES[content["kind"]], _warn_of_audits(content))
        for marker in _create_marker(number):
            self._client.create(_RESOURCES[marker["kind"]], marker)
        for namespace in labels:
            until(f"mark {number} is seen in {namespace}", partial(self._is_marked, namespace, number), _WITHIN)
        return stored

    def remove(self) -> None:
        """Delete the policies and the marker."""
        for path in reversed(_RESOURCES.values()):
            for selector in (COMPILED_FROM_LABEL, _MARK):
                self._client.delete(path, labelSelector=selector)

    def _set_labels(self, namespace: str, labels: Mapping[str, str], number: int) -> dict[str, str]:
        path = f"/api/v1/namespaces/{namespace}"
        former = self._client.get(path)["metadata"]["labels"]
        removed = dict.fromkeys(name for name in former if name != "kubernetes.io/metadata.name")
        patch = {"metadata": {"labels": {**removed, **labels, _MARK: str(number)}}}
        stored: dict[str, str] = self._client.patch(path, patch)["metadata"]["labels"]
        return stored

    def _is_marked(self, namespace: str, number: int) -> bool:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        answer = self._client.ask("POST", path, {"metadata": {"name": "marked"}}, query={"dryRun": "All"})
        return f"mark {number}." in answer.rejection


@contextmanager
def mark_policies(cluster: Cluster) -> Iterator[PolicyMarker]:
    """Yield a marker; after the block its policies are deleted."""
    marker = PolicyMarker(cluster)
    try:
        yield marker
    finally:
        marker.remove()


def _warn_of_audits(content: Object) -> Object:
    if content["spec"].get("validationActions") != ["Audit"]:
        return content
    return {**content, "spec": {**content["spec"], "validationActions": ["Audit", "Warn"]}}


def _create_marker(number: int) -> Iterator[Object]:
    """Yield a policy that rejects ConfigMaps of namespaces with this mark, and its binding."""
    metadata = {"name": f"{_MARK}-{number}", "labels": {_MARK: str(number)}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    labels = "namespaceObject.metadata.labels"
    expression = f"!('{_MARK}' in {labels}) || {labels}['{_MARK}'] != '{number}'"
    for kind, spec in (
        (
            "ValidatingAdmissionPolicy",
            {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression, "message": f"mark {number}."}],
            },
        ),
        ("ValidatingAdmissionPolicyBinding", {"policyName": metadata["name"], "validationActions": ["Deny"]}),
    ):
        yield {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def read_messages(answer: Answer) -> dict[str, str]:
    """Return the messages of the violated policies of an answer by name, of rejecting ones only the first.

    An API server cuts warnings that are long together, without a sign; such ones get the sign of the gate.
    """
    messages = {found["policy"]: found["text"] for found in map(_WARNING.search, answer.warnings) if found}
    if any(len(warning) == _CUT_LENGTH for warning in answer.warnings):
        messages = {name: f"{text}…" for name, text in messages.items()}
    if denial := find_denial(answer):
        messages |= denial
    return messages


_CUT_LENGTH: Final = 256
"""The length of a warning that is cut (k8s.io/apiserver pkg/endpoints/filters/warning.go, v1.37)."""


def find_denial(answer: Answer) -> dict[str, str]:
    """Return the name and the message of the policy that rejects a request; empty if none does."""
    found = _DENIAL.search(answer.rejection)
    return {found["policy"]: found["text"]} if found else {}
