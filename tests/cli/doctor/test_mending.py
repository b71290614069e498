"""What mends a fault goes by how the gate was started and who makes its certificate."""

import base64
from datetime import timedelta

from tests.cli.doctor.changes import FAIL, trusting, without
from tests.cli.doctor.world import (
    ARGUMENTS,
    NOW,
    Object,
    authority,
    deployment,
    leaf,
    pem,
    registered,
    said,
    secret,
    well,
)


def test_rights_of_what_the_gate_was_not_started_for_are_not_asked_for() -> None:
    lacking = without("get secrets/tallygate-tls", "list openreports.io")
    arguments = (*ARGUMENTS, "--tls-secret=tallygate-system/tallygate-tls")
    found = said("permissions", well(permissions=lacking, deployment=deployment(arguments=arguments)))
    assert (found.status, found.fix_commands) == (
        FAIL,
        ("kubectl apply --filename=deploy/kustomize/components/self-signed/rbac.yaml",),
    )


def test_what_mends_a_certificate_goes_by_who_makes_it() -> None:
    def injected(mutating: Object, _: Object) -> None:
        mutating["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "tallygate-system/tallygate"}

    old = secret(pem(leaf(NOW - timedelta(days=85))))
    by_itself = deployment(arguments=(*ARGUMENTS, "--tls-secret=tallygate-system/tallygate-tls"))
    within = "kubectl --namespace=tallygate-system"
    assert said("certificate", well(secret=old)).fix_commands[0] == "tallygate certs renew certs.d/"
    assert said("certificate", well(secret=old, deployment=by_itself)).fix_commands[0] == (
        f"{within} annotate secret tallygate-tls tallygate.dev/renew=certificate --overwrite"
    )
    assert (
        said("certificate", well(secret=old, **registered(injected))).fix_commands[0] == f"{within} delete secret "
        "tallygate-tls"
    )


def test_a_bundle_that_is_right_elsewhere_is_what_mends_a_wrong_one() -> None:
    found = said("trusted", well(**trusting(b"")))
    assert len(found.fix_commands) == 1
    assert base64.b64encode(pem(authority())).decode() in found.fix_commands[0]
