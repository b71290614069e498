"""The catalogue of all codes of tallygate, and the codes of manifests.

A code TG4xx marks a file that cannot be checked, or that does not mean the same as its text suggests.
"""

import difflib

from tallygate.accounting import kubernetes_codes as accounting
from tallygate.accounting.problem import Code
from tallygate.admission import implied_requests
from tallygate.admission import rule_codes as admission
from tallygate.audit.old_names import OLD_NAME
from tallygate.errors import TallygateError
from tallygate.policy import policy_codes as policy

NOT_YAML = Code(
    "TG401",
    "not-yaml",
    "A file is neither YAML nor JSON.",
    "kubectl could not read it either. A Helm chart's templates are not YAML until `helm template` has rendered them.",
    "metadata: {name: p\nspec: {}\n",
    "metadata: {name: p}\nspec: {}\n",
)
BEYOND_LIMITS = Code(
    "TG402",
    "beyond-bounds",
    "A file is larger, deeper or has more documents or aliases than anything that Kubernetes would take.",
    "A few lines of aliases can stand for a billion values, and a megabyte of brackets for nothing at all. What "
    "cannot be a manifest is not worked on.",
    "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n# ... and so on\n",
    "a: [x, x, x]\nb: [x, x, x]\n",
)
NOT_AN_OBJECT = Code(
    "TG403",
    "not-an-object",
    "A document says what kind it is but not of which API, or the reverse.",
    "Both `apiVersion` and `kind` are needed to know what it is. A document with neither, such as a values file, is no "
    "Kubernetes object and is passed over, and so is one of another tool that has one of them, such as `Chart.yaml`. A "
    "byte order mark before a key, as in two files that were joined, makes another key of it.",
    "kind: Pod\nmetadata: {name: p}\n",
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
)
WRONG_SHAPE = Code(
    "TG404",
    "wrong-shape",
    "A field has a value of another type than the API has there.",
    "The API server could not decode the object and would answer 400 before anything else looked at it.",
    "spec:\n  containers: {name: a}\n",
    "spec:\n  containers:\n  - name: a\n",
)
DUPLICATE_KEY = Code(
    "TG405",
    "duplicate-key",
    "The same key stands twice in one mapping.",
    "kubectl keeps the last and drops the others without a word, so what the reader sees first is not what is stored.",
    "limits:\n  nvidia.com/gpu: 1\n  nvidia.com/gpu: 2\n",
    "limits:\n  nvidia.com/gpu: 2\n",
)
UNREADABLE_FILE = Code(
    "TG406",
    "unreadable-file",
    "A file or folder that was named cannot be read.",
    "It is not there, or its permissions do not let you. A check that skipped it would call it clean.",
    "tallygate check no-such-file.yaml\n",
    "tallygate check deploy/\n",
)
NOT_AS_WRITTEN = Code(
    "TG407",
    "not-as-written",
    "A number without quotes reaches the API server as another number.",
    "Manifests are YAML 1.1: a leading zero means octal, underscores vanish, and a number with a point, an exponent or "
    "more than 19 digits passes through a float64. In quotes it arrives as written.",
    "limits:\n  nvidia.com/gpu: 010      # eight\n",
    "limits:\n  nvidia.com/gpu: 10\n",
)
NOT_EVALUATED = Code(
    "TG408",
    "not-evaluated",
    "A rule or cap could not be applied, because something that it needs is unknown here.",
    "A rule that selects namespaces by label needs their labels. Nothing is guessed: give them with `--snapshot`, the "
    "output of `kubectl get nodes,pods,namespaces -A -o json`.",
    "tallygate check pod.yaml\n",
    "kubectl get nodes,pods,namespaces -A -o json > now.json\ntallygate check --snapshot now.json pod.yaml\n",
)
UNKNOWN_FIELD = Code(
    "TG409",
    "unknown-field",
    "A field that its kind does not have.",
    "kubectl and client libraries ask the API server for strict decoding, and it then rejects the object. Without "
    "strict decoding the field is dropped, and a pod whose `resource:` or `limit:` is dropped requests nothing. Known "
    "are the fields of Kubernetes 1.34 to 1.37.",
    "containers:\n- name: a\n  resource: {limits: {nvidia.com/gpu: 1}}\n",
    "containers:\n- name: a\n  resources: {limits: {nvidia.com/gpu: 1}}\n",
)
NOT_READ = Code(
    "TG410",
    "not-read",
    "An object has pods, and its kind, or a part of it, is not read.",
    "It has containers, or requests or limits of resources: a controller makes pods from it, and the rules and caps "
    "apply to these pods in the cluster; here they are not checked. Nor are requests and limits besides the pod "
    "templates of a kind that is read, which is a note where they are of cpu and memory alone. `--strict` lets a "
    "warning fail. Define the kind by a WorkloadKind among the policies (docs/tasks/further-kinds.md), or check the "
    "workload that the controller makes.",
    "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nspec:\n  podTemplate:\n"
    "    spec: {containers: [{name: flink}]}\n",
    "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec: {containers: [{name: pytorch}]}\n",
)
WRONG_KIND = Code(
    "TG411",
    "wrong-kind",
    "An object has a kind or an apiVersion that no API server has, and nearly one that is read.",
    "`kind: deployment` and `apiVersion: batch/v1beta1` are rejected, so nothing in the object is checked. Kinds are "
    "case-sensitive, and old versions are removed from Kubernetes.",
    "apiVersion: apps/v1\nkind: deployment\n",
    "apiVersion: apps/v1\nkind: Deployment\n",
)
NOTHING_TO_CHECK = Code(
    "TG412",
    "nothing-to-check",
    "Stdin or a folder has no Kubernetes object, or a named file no document.",
    "A command that failed before the pipe, or a wrong folder, would otherwise pass for a clean check. "
    "`--allow-empty` accepts it.",
    "helm template missing-chart | tallygate check -\n",
    "set -o pipefail\nhelm template charts/trainer | tallygate check -\n",
)
MISSPELT_NAME = Code(
    "TG413",
    "misspelt-name",
    "A request names a resource that is probably a misspelling of a well-known one.",
    "Kubernetes accepts any well-formed name: the pod would wait for ever, and no cap counts it. With "
    "a snapshot the names of its nodes decide instead, by a rule with `advertised`.",
    "resources:\n  limits: {nvidia.com/gpus: 1}\n",
    "resources:\n  limits: {nvidia.com/gpu: 1}\n",
)

MANIFEST_CODES: tuple[Code, ...] = (
    NOT_YAML,
    BEYOND_LIMITS,
    NOT_AN_OBJECT,
    WRONG_SHAPE,
    DUPLICATE_KEY,
    UNREADABLE_FILE,
    NOT_AS_WRITTEN,
    NOT_EVALUATED,
    UNKNOWN_FIELD,
    NOT_READ,
    WRONG_KIND,
    NOTHING_TO_CHECK,
    MISSPELT_NAME,
)
"""Every code of manifests, for `tallygate explain` and the documentation."""


ALL_CODES: tuple[Code, ...] = tuple(
    sorted(
        (
            *accounting.CODES,
            *admission.CODES,
            *implied_requests.CODES,
            *policy.CODES,
            *MANIFEST_CODES,
            OLD_NAME,
        ),
        key=lambda code: code.number,
    )
)
"""All codes, by their unique number."""

_CODES_BY_NUMBER = {code.number: code for code in ALL_CODES}


class UnknownCodeError(TallygateError):
    """A code that does not exist."""


def get_code(number: str) -> Code:
    """Return the code with the number of a finding."""
    return _CODES_BY_NUMBER[number]


def find_codes(text: str) -> tuple[Code, ...]:
    """Return the codes of a number or a name in any case; a code of Kubernetes and one of tallygate may share a name.

    Raises:
        UnknownCodeError: if no code matches; the text names similar ones.
    """
    codes = tuple(code for code in ALL_CODES if text.upper() == code.number or text.lower() == code.slug)
    if codes:
        return codes
    names = [*_CODES_BY_NUMBER, *(code.slug for code in ALL_CODES)]
    similar = difflib.get_close_matches(text, names, n=len(names)) or difflib.get_close_matches(
        text.upper(), names, n=len(names)
    )
    close_matches = sorted(similar, key=lambda name: -sum(map(str.__eq__, name, text.upper())))[:2]
    hint = f"; did you mean {' or '.join(close_matches)}?" if close_matches else ";"
    raise UnknownCodeError(f"there is no code {text!r}{hint} `tallygate explain` lists them all")
