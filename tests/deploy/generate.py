"""The generated files of deploy/. `python -m tests.deploy.generate` writes them; `test_generated` fails when old."""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import yaml

from tallygate.admission.kinds import SCALABLE_KINDS
from tallygate.admission.self_registration import REGISTRATION_ANNOTATION
from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.cluster.kinds import KINDS, POD_GROUP_RESOURCE
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import WorkloadKind
from tests.admission.plain_configurations import create_plain_configurations
from tests.deploy.chart_description import describe_chart
from tests.deploy.dashboard import render_dashboard
from tests.deploy.policy_values import embed_schemas
from tests.deploy.values_table import update_values_table

ROOT: Final = Path(__file__).parents[2]
KUSTOMIZE: Final = ROOT / "deploy" / "kustomize"
BASE: Final = KUSTOMIZE / "base"
COMPONENTS: Final = KUSTOMIZE / "components"
CHART: Final = ROOT / "deploy" / "helm" / "tallygate"
INSTALLATION: Final = ROOT / "docs" / "reference" / "installation.md"
RULES: Final = ROOT / "deploy" / "prometheus" / "tallygate.yaml"
_AUDIT_RIGHTS: Final = COMPONENTS / "audit" / "rbac.yaml"
_CLUSTER_RIGHTS: Final = COMPONENTS / "cluster-access" / "rbac.yaml"
_ASK_RIGHTS: Final = COMPONENTS / "ask" / "rbac.yaml"
_CORE: Final = '""'
_WATCHED_BLOCK: Final = re.compile(r"(# watched kinds: begin [^\n]*\n).*?(# watched kinds: end\n)", re.DOTALL)
_KINDS_BLOCK: Final = re.compile(
    r"(# kinds of other projects: begin [^\n]*\n).*?(# kinds of other projects: end\n)", re.DOTALL
)
HAPROXY: Final = COMPONENTS / "relay" / "haproxy.cfg"

_MADE = "# Made by `python -m tests.deploy.generate`; "
_WEBHOOKS = f"""\
{_MADE}webhook/tallygate/admission/webhook_configuration.py says why it is so.
# Without caBundle, which the gate or `tallygate certs publish` fills in, and without the annotation for the gate.
"""
_POLICIES = f"{_MADE}the original is policies/default.yaml."
_ORIGINALS: Final = {
    "quota": BASE / "quota.yaml",
    "webhooks": BASE / "webhooks.yaml",
    "service": BASE / "service.yaml",
    "crd": COMPONENTS / "cluster-access" / "crd.yaml",
    "cluster-access-rbac": _CLUSTER_RIGHTS,
    "disruption": COMPONENTS / "ha" / "disruption.yaml",
    "self-signed-rbac": COMPONENTS / "self-signed" / "rbac.yaml",
    "audit-rbac": _AUDIT_RIGHTS,
    "publish-nodes-rbac": COMPONENTS / "publish-nodes" / "rbac.yaml",
    "backstop-rbac": COMPONENTS / "backstop" / "rbac.yaml",
    "publish-usage-crd": COMPONENTS / "publish-usage" / "crd.yaml",
    "publish-usage-rbac": COMPONENTS / "publish-usage" / "rbac.yaml",
    "view-rbac": COMPONENTS / "publish-usage" / "view.yaml",
    "ask-serviceaccount": COMPONENTS / "ask" / "serviceaccount.yaml",
    "ask-rbac": _ASK_RIGHTS,
    "ask-address": COMPONENTS / "ask" / "address.yaml",
    "ask-address-rbac": COMPONENTS / "ask" / "address-rbac.yaml",
    "ask-service": COMPONENTS / "ask" / "service.yaml",
    "ask-deployment": COMPONENTS / "ask" / "deployment.yaml",
    "ask-network": COMPONENTS / "ask" / "network.yaml",
    "cert-manager": COMPONENTS / "cert-manager" / "certificates.yaml",
    "network": COMPONENTS / "network" / "policy.yaml",
    "device-plugin": COMPONENTS / "device-plugin" / "daemonset.yaml",
    "flow-control": COMPONENTS / "flow-control" / "flow-control.yaml",
    "metrics-service": COMPONENTS / "monitoring" / "service.yaml",
    "servicemonitor": COMPONENTS / "monitoring" / "servicemonitor.yaml",
}
"""Files that the chart copies except for the namespace: Helm reads no file outside the chart."""


def generate_files() -> dict[Path, str]:
    """Return the content of every generated file."""
    return dict(_generate())


def _generate() -> Iterator[tuple[Path, str]]:
    files = CHART / "files"
    rights = {
        _AUDIT_RIGHTS: _add_kinds(_AUDIT_RIGHTS, KNOWN_KINDS, "list"),
        _CLUSTER_RIGHTS: _add_kinds(_CLUSTER_RIGHTS, filter(_is_read_live, KNOWN_KINDS), "get"),
        _ASK_RIGHTS: _add_watched_kinds(_ASK_RIGHTS),
    }
    yield from rights.items()
    yield COMPONENTS / "full-registration" / "webhooks.yaml", _webhooks()
    yield BASE / "policies" / "default.yaml", _policies()
    yield files / "policies.yaml", _policies()
    for path in (ROOT / "deploy" / "grafana", COMPONENTS / "dashboard"):
        yield path / "tallygate.json", render_dashboard()
    yield files / "dashboard.json", render_dashboard()
    for folder in (COMPONENTS / "monitoring", files):
        yield folder / "prometheusrule.yaml", _rules()
    yield COMPONENTS / "relay" / "checksum.yaml", _checksum()
    yield files / HAPROXY.name, HAPROXY.read_text(encoding="utf-8")
    for name, original in _ORIGINALS.items():
        yield files / f"{name}.yaml", _copy(original, rights.get(original))
    yield CHART / "Chart.yaml", _chart()
    values_schema = CHART / "values.schema.json"
    yield values_schema, embed_schemas(values_schema.read_text(encoding="utf-8"))
    for page in (INSTALLATION, CHART / "README.md"):
        text = page.read_text(encoding="utf-8")
        yield page, update_values_table(text, CHART / "values.schema.json", CHART / "values.yaml")


def _webhooks() -> str:
    configurations = create_plain_configurations(ServiceTarget())
    for each in configurations:
        each["metadata"]["annotations"] = {REGISTRATION_ANNOTATION: None}
    return _WEBHOOKS + yaml.safe_dump_all(configurations, sort_keys=False, width=120)


def _add_kinds(roles: Path, kinds: Iterable[WorkloadKind], verb: str) -> str:
    """Return the roles of a component, with a rule for each API group of these kinds of other projects."""
    rules = "".join(
        f"- apiGroups: [{group}]\n  resources: [{', '.join(sorted(each.resource for each in members))}]\n"
        f"  # likewise, where they are served\n  verbs: [{verb}]\n"
        for group, members in groupby(sorted(kinds, key=_get_group), key=_get_group)
    )
    return _KINDS_BLOCK.sub(rf"\g<1>{rules}\g<2>", roles.read_text(encoding="utf-8"))


def _add_watched_kinds(roles: Path) -> str:
    """Return the roles of a component, with a rule for each API group of the kinds that make the state of a cluster."""
    resources: dict[str, list[str]] = {}
    watched = [*((kind.version, kind.resource) for kind in KINDS.values()), POD_GROUP_RESOURCE[:2]]
    for version, resource in watched:
        resources.setdefault(version.rpartition("/")[0], []).append(resource)
    rules = "".join(
        f"- apiGroups: [{group or _CORE}]\n  resources: [{', '.join(names)}]\n"
        "  # watched, where they are served: answers are made from them\n  verbs: [list, watch]\n"
        for group, names in resources.items()
    )
    return _WATCHED_BLOCK.sub(rf"\g<1>{rules}\g<2>", roles.read_text(encoding="utf-8"))


def _is_read_live(kind: WorkloadKind) -> bool:
    """Return whether the gate reads objects of a kind: to admit them as a whole, or to evaluate their scale."""
    return kind.starts_together or (kind.group, kind.resource) in SCALABLE_KINDS


def _get_group(kind: WorkloadKind) -> str:
    return kind.group


def _policies() -> str:
    """Return the shipped policies, as a copy: kustomize reads no link and no file outside its folder."""
    _, rest = (ROOT / "policies" / "default.yaml").read_text(encoding="utf-8").split("\n", 1)
    return f"{_POLICIES}\n{rest}"


def _copy(original: Path, text: str | None) -> str:
    """Return the copy of a file, whose text is given if it is generated too."""
    content = original.read_text(encoding="utf-8") if text is None else text
    return f"{_MADE}the original is {original.relative_to(ROOT)}.\n{content}"


def _checksum() -> str:
    """Return a patch of the pod template: HAProxy reads its configuration only when it starts."""
    annotations = {"checksum/relay": hashlib.sha256(HAPROXY.read_bytes()).hexdigest()}
    patch = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "tallygate", "namespace": ServiceTarget().namespace},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }
    return f"{_MADE}with another haproxy.cfg new pods start.\n" + yaml.safe_dump(patch, sort_keys=False, width=120)


def _rules() -> str:
    """Return the rules as an object of the Prometheus operator."""
    content = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "tallygate",
            "namespace": ServiceTarget().namespace,
            "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "monitoring"},
        },
        "spec": yaml.safe_load(RULES.read_text(encoding="utf-8")),
    }
    return f"{_MADE}the original is deploy/prometheus/tallygate.yaml.\n" + yaml.safe_dump(
        content, sort_keys=False, width=120
    )


def _chart() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    content = yaml.safe_dump(describe_chart(project), sort_keys=False, width=120)
    return f"{_MADE}the version and the texts are those of pyproject.toml.\n{content}"


def main() -> None:
    """Write the generated files."""
    for path, text in generate_files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
