"""Fix commands depend on the arguments of the gate and on the issuer of its certificate."""

import base64
from datetime import timedelta

from tallygate.cli.doctor.check_result import CheckStatus
from tallygate.cli.doctor.facts import OpaqueNameUser, PermissionResult
from tallygate.cli.doctor.permissions import PERMISSIONS, list_permissions
from tests.cli.doctor.fact_changes import FAIL, exclude_permissions, replace_bundle
from tests.cli.doctor.healthy_gate import (
    ARGUMENTS,
    NOW,
    Object,
    create_facts,
    create_registration,
    deployment,
    encode_pem,
    get_ca,
    leaf,
    run_check,
    secret,
)
from tests.cli.doctor.workload_cases import GANGS


def test_permissions_of_unused_features_are_not_required() -> None:
    permissions = exclude_permissions("get secrets/tallygate-tls", "list openreports.io")
    arguments = (*ARGUMENTS, "--tls-secret=tallygate-system/tallygate-tls")
    found = run_check("permissions", create_facts(permissions=permissions, deployment=deployment(arguments=arguments)))
    assert (found.status, found.fix_commands) == (
        FAIL,
        ("kubectl apply --filename=deploy/kustomize/components/self-signed/rbac.yaml",),
    )


def test_a_permission_on_a_kind_of_the_policies_is_granted_by_a_role_of_its_own() -> None:
    allowed = [PermissionResult(each, each in PERMISSIONS) for each in list_permissions(GANGS)]
    arguments = (*ARGUMENTS, "--audit-interval=1h")
    facts = create_facts(permissions=tuple(allowed), deployment=deployment(arguments=arguments), policies=GANGS)
    found = run_check("permissions", facts)
    assert found.status is FAIL
    assert found.reason.endswith("permissions: list gangjobs.batch.example.com")
    name = "tallygate-list-gangjobs.batch.example.com"
    assert found.fix_commands == (
        f"kubectl create clusterrole {name} --verb=list --resource=gangjobs.batch.example.com",
        f"kubectl create clusterrolebinding {name} --clusterrole={name} --serviceaccount=tallygate-system:tallygate",
    )
    assert run_check("permissions", create_facts(permissions=tuple(allowed))).status is CheckStatus.PASS


def test_the_fix_of_a_certificate_depends_on_its_issuer() -> None:
    def use_cert_manager(mutating: Object, _: Object) -> None:
        mutating["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "tallygate-system/tallygate"}

    old = secret(encode_pem(leaf(NOW - timedelta(days=85))))
    self_signed = deployment(arguments=(*ARGUMENTS, "--tls-secret=tallygate-system/tallygate-tls"))
    kubectl = "kubectl --namespace=tallygate-system"
    assert run_check("certificate", create_facts(secret=old)).fix_commands[0] == "tallygate certs renew certs.d/"
    assert run_check("certificate", create_facts(secret=old, deployment=self_signed)).fix_commands[0] == (
        f"{kubectl} annotate secret tallygate-tls tallygate.dev/renew=certificate --overwrite"
    )
    assert (
        run_check("certificate", create_facts(secret=old, **create_registration(use_cert_manager))).fix_commands[0]
        == f"{kubectl} delete secret "
        "tallygate-tls"
    )


def test_the_fix_of_a_wrong_bundle_is_the_right_bundle_of_another_webhook() -> None:
    found = run_check("trusted", create_facts(**replace_bundle(b"")))
    assert len(found.fix_commands) == 1
    assert base64.b64encode(encode_pem(get_ca())).decode() in found.fix_commands[0]


def test_a_node_loses_an_opaque_name_only_if_no_pod_requests_it() -> None:
    prefix = "pod.alpha.kubernetes.io/opaque-int-resource-"
    nodes = tuple(OpaqueNameUser("Node", "", "n1", f"{prefix}{each}") for each in ("bananas", "kiwis"))
    pod = OpaqueNameUser("Pod", "team-a", "p", f"{prefix}bananas")
    unused = run_check("opaque-names", create_facts(opaque_name_users=nodes)).fix_commands
    used = run_check("opaque-names", create_facts(opaque_name_users=(*nodes, pod))).fix_commands
    assert len(unused) == 2
    assert used == unused[1:]
    assert "kiwis" in used[0]
