"""Every check by itself: one thing is different, and exactly that is found; what is well stays PASS."""

import base64
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from certs.authority import new_authority
from tests.cli.doctor.world import (
    ARGUMENTS,
    NOW,
    READY,
    Object,
    authority,
    budget,
    defined,
    deployment,
    leaf,
    lease,
    metrics,
    pem,
    registered,
    replica,
    said,
    secret,
    webhook,
    well,
    with_check,
    wrong,
)
from webhook.accounting.amounts import Amounts
from webhook.cli.doctoring.checks import CHECKS, results
from webhook.cli.doctoring.facts import Answered, Attempt, Bound, Replica, Shown, Unseen, User
from webhook.cli.doctoring.records import Configuration, Space
from webhook.cli.doctoring.rights import RIGHTS
from webhook.cli.doctoring.verdict import Level
from webhook.objects.cluster import ResourceQuota

FAIL, WARN, UNKNOWN = Level.FAIL, Level.WARN, Level.UNKNOWN
VALIDATE, MUTATE = "validate.tallygate.dev", "mutate.tallygate.dev"
CHANGES = "updates.validate.tallygate.dev"
NODES = "nodes.validate.tallygate.dev"
UNSEEN = Unseen("403 forbidden")


def changed(phase: str, name: str, **fields: Any) -> dict[str, Any]:
    """The registration with one webhook changed."""

    def change(mutating: Object, validating: Object) -> None:
        webhook(mutating if phase == "mutate" else validating, name).update(fields)

    return registered(change)


def trusting(bundle: bytes) -> dict[str, Any]:
    """The registration where the validating webhook trusts others."""

    def change(_: Object, validating: Object) -> None:
        webhook(validating, VALIDATE)["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()

    return registered(change)


def by_url(mutating: Object, validating: Object) -> None:
    """Let the gate be called by URL."""
    for each in (*mutating["webhooks"], *validating["webhooks"]):
        each["clientConfig"] = {"url": "https://gate.example.com/v1", "caBundle": each["clientConfig"]["caBundle"]}


def later(name: str) -> Configuration:
    """Another mutating configuration, which sees pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*/*"]}
    hook = {"name": "one.example.com", "rules": [rule]}
    return msgspec.convert({"metadata": {"name": name}, "webhooks": [hook]}, Configuration)


def quota(hard: dict[str, str], **spec: Any) -> ResourceQuota:
    """A ResourceQuota of team-a."""
    whole = {"metadata": {"name": "team", "namespace": "team-a"}, "spec": {"hard": hard, **spec}}
    return msgspec.json.decode(msgspec.json.encode(whole), type=ResourceQuota)


def capped(*, whole: bool = True) -> tuple[Bound, ...]:
    """A cap of four GPUs and two cores over team-a."""
    return (Bound("gpus", "team-a", Amounts({"nvidia.com/gpu": 4, "limits.cpu": 2000}), whole),)


def without(*verbs: str) -> tuple[Answered, ...]:
    """Every right but these."""
    return tuple(Answered(right, str(right) not in verbs) for right in RIGHTS)


def only(**replica_changes: Any) -> dict[str, Any]:
    """One of the two replicas is otherwise."""
    return {"replicas": (replica(**replica_changes), replica("pod-b"))}


def schema(change: Callable[[Object], None]) -> dict[str, Any]:
    """The definition with a change of its only version."""
    return {"definition": defined(lambda stored: change(stored["spec"]["versions"][0]))}


def _old(version: Object) -> None:
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["nsAsOf"]


_OF_THE_REGISTRATION = (
    "rules",
    "conditions",
    "timeouts",
    "mutated-after",
    "reachable",
    "trusted",
    "failure-policy",
    "exempt",
    "lockout",
    "passed-over",
)

CASES: dict[str, tuple[dict[str, Any], dict[str, Level]]] = {
    "the validating configuration is missing": (
        {"validating": None},
        {"registered": FAIL, "passed-over": UNKNOWN},
    ),
    "it was taken out of the way": (
        {"mutating": None, "validating": None},
        {"registered": FAIL} | dict.fromkeys(_OF_THE_REGISTRATION, UNKNOWN),
    ),
    "the mutating configuration is missing": ({"mutating": None}, {"registered": FAIL, "mutated-after": UNKNOWN}),
    "a configuration speaks of no pods": (
        changed("validate", VALIDATE, rules=[]),
        {"registered": FAIL, "rules": FAIL, "passed-over": WARN},
    ),
    "resize is not sent": (
        changed(
            "validate",
            CHANGES,
            rules=[
                rule | {"resources": [each for each in rule["resources"] if each != "pods/resize"]}
                for rule in webhook({"webhooks": msgspec.to_builtins(registered()["validating"].webhooks)}, CHANGES)[
                    "rules"
                ]
            ],
        ),
        {"rules": FAIL},
    ),
    "labels of an object decide": (
        changed("mutate", MUTATE, objectSelector={"matchLabels": {"judge": "me"}}),
        {"conditions": FAIL},
    ),
    "an exact version only": (changed("validate", VALIDATE, matchPolicy="Exact"), {"conditions": WARN}),
    "a strange condition": (
        changed("validate", VALIDATE, matchConditions=[{"name": "mine", "expression": "false"}]),
        {"conditions": WARN},
    ),
    "a timeout of a second": (changed("validate", VALIDATE, timeoutSeconds=1), {"timeouts": WARN}),
    "a timeout of half a minute": (changed("mutate", MUTATE, timeoutSeconds=30), {"timeouts": WARN}),
    "somebody mutates after us and we never look again": (
        changed("mutate", MUTATE, reinvocationPolicy="Never") | {"others": (later("zz"),)},
        {"mutated-after": WARN},
    ),
    "other configurations cannot be read": ({"others": UNSEEN}, {"mutated-after": UNKNOWN}),
    "the API server cannot call": (
        {"attempts": (Attempt("p", "default", 500, f'failed calling webhook "{VALIDATE}": no endpoints'),)},
        {"reachable": FAIL},
    ),
    "somebody else refuses": (
        {"attempts": (Attempt("p", "default", 403, 'admission webhook "other.example.com" denied the request'),)},
        {"reachable": UNKNOWN},
    ),
    "we may not create pods": ({"attempts": UNSEEN}, {"reachable": UNKNOWN}),
    "another authority is trusted": (trusting(pem(new_authority(NOW))), {"trusted": FAIL}),
    "nobody is trusted": (trusting(b""), {"trusted": FAIL}),
    "what is trusted is no certificate": (trusting(b"-----BEGIN"), {"trusted": FAIL}),
    "the certificate is for another Service": (
        {"secret": secret(pem(leaf(service="other")))},
        {"trusted": FAIL},
    ),
    "the Secret cannot be read": ({"secret": UNSEEN}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "there is no Secret": ({"secret": None}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "the Secret holds no certificate": ({"secret": secret(b"")}, {"trusted": UNKNOWN, "certificate": UNKNOWN}),
    "the certificate has expired": (
        {"secret": secret(pem(leaf(NOW - timedelta(days=200))))},
        {"trusted": FAIL, "certificate": FAIL},
    ),
    "the certificate expires within a week": (
        {"secret": secret(pem(leaf(NOW - timedelta(days=85))))},
        {"certificate": WARN},
    ),
    "a replica serves with another certificate": (
        only(told=metrics(certificate_not_after_timestamp_seconds=NOW.timestamp() + 86400 * 10)),
        {"certificate": WARN},
    ),
    "a replica serves with one that has expired": (
        only(told=metrics(certificate_not_after_timestamp_seconds=NOW.timestamp() - 60)),
        {"certificate": FAIL},
    ),
    "pods pass while the gate is away": (changed("mutate", MUTATE, failurePolicy="Ignore"), {"failure-policy": WARN}),
    "changes of pods pass while the gate is away": (
        changed("validate", CHANGES, failurePolicy="Ignore"),
        {"failure-policy": WARN},
    ),
    "one replica": ({"deployment": deployment(1, 1)}, {"failure-policy": WARN}),
    "nobody is ready": ({"deployment": deployment(2, 0)}, {"failure-policy": FAIL, "replicas": WARN}),
    "there is no Deployment": ({"deployment": None}, {"failure-policy": FAIL}),
    "the Deployment cannot be read": ({"deployment": UNSEEN}, {"failure-policy": UNKNOWN}),
    "no budget": ({"budgets": ()}, {"failure-policy": WARN}),
    "a budget over others": ({"budgets": (budget(labels={"app": "other"}),)}, {"failure-policy": WARN}),
    "a budget that lets nobody go": ({"budgets": (budget(0),)}, {"failure-policy": WARN}),
    "budgets cannot be read": ({"budgets": UNSEEN}, {"failure-policy": UNKNOWN}),
    "kube-system waits for the gate": (changed("validate", VALIDATE, namespaceSelector={}), {"exempt": FAIL}),
    "what changes in kube-system waits for the gate": (
        changed("validate", CHANGES, namespaceSelector={}),
        {"exempt": FAIL},
    ),
    "it was registered by a version that knew no webhook for updates": (
        registered(lambda _, validating: validating["webhooks"].remove(webhook(validating, CHANGES))),
        {"rules": FAIL, "passed-over": WARN},
    ),
    "the gate's own namespace waits for it": (
        changed(
            "mutate",
            MUTATE,
            namespaceSelector={
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
                ]
            },
        ),
        {"exempt": FAIL},
    ),
    "nodes wait for the gate": (changed("validate", NODES, failurePolicy="Fail"), {"lockout": FAIL}),
    "all waits for the gate": (
        changed(
            "validate",
            VALIDATE,
            rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
        ),
        {"lockout": FAIL},
    ),
    "a namespace is passed over": (
        changed("validate", VALIDATE, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}),
        {"passed-over": WARN},
    ),
    "changes are passed over in a namespace": (
        changed("validate", CHANGES, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}),
        {"passed-over": WARN},
    ),
    "namespaces cannot be listed": ({"spaces": UNSEEN}, {"passed-over": UNKNOWN}),
    "no replica runs": (
        {"replicas": ()},
        {"replicas": FAIL, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN},
    ),
    "no replica runs, and none has left a Lease": (
        {"replicas": (), "lease": None},
        {"replicas": FAIL, "policies": UNKNOWN, "watches": UNKNOWN, "ledgers": UNKNOWN, "keeper": UNKNOWN},
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
        only(readiness=with_check("cluster", pods={"objects": 0, "revision": None, "stale": "forbidden"})),
        {"watches": FAIL},
    ),
    "nodes were never listed": (
        only(readiness=with_check("cluster", nodes={"objects": 0, "revision": None})),
        {"watches": WARN},
    ),
    "there is no definition": ({"definition": None}, {"ledger-definition": FAIL}),
    "the definition cannot be read": ({"definition": UNSEEN}, {"ledger-definition": UNKNOWN}),
    "the definition is old": (schema(_old), {"ledger-definition": FAIL}),
    "our version is not served": (schema(lambda version: version.update(served=False)), {"ledger-definition": FAIL}),
    "our version is not stored": (schema(lambda version: version.update(storage=False)), {"ledger-definition": FAIL}),
    "our version is not there": (schema(lambda version: version.update(name="v1")), {"ledger-definition": FAIL}),
    "the definition is not established": (
        {"definition": defined(lambda stored: stored["status"].update(conditions=[]))},
        {"ledger-definition": FAIL},
    ),
    "older objects may be stored": (
        {"definition": defined(lambda stored: stored["status"].update(storedVersions=["v1alpha0", "v1alpha1"]))},
        {"ledger-definition": WARN},
    ),
    "one replica keeps ledgers in memory": (
        {
            "deployment": deployment(1, 1, ("serve",)),
            "replicas": (replica(),),
            "lease": None,
            "definition": None,
            "rights": without("list pods", "create leases.coordination.k8s.io"),
        },
        {"failure-policy": WARN},
    ),
    "two replicas keep ledgers in memory": (
        {"deployment": deployment(2, 2, ("serve",)), "lease": None, "definition": None},
        {"keeper": FAIL},
    ),
    "the keeper of certificates complains": (
        only(readiness=with_check("certificates", ready=True, complaint="the Secret was edited by hand")),
        {"replicas": WARN},
    ),
    "nobody renews the Lease": ({"lease": lease(timedelta(minutes=-5))}, {"keeper": FAIL}),
    "nobody holds the Lease": ({"lease": lease(holder="")}, {"keeper": WARN}),
    "there is no Lease": ({"lease": None}, {"keeper": WARN}),
    "the Lease cannot be read": ({"lease": UNSEEN}, {"keeper": UNKNOWN}),
    "pods came past the gate": (only(told=metrics(ledger_drifts_total=[({"cap": "gpus"}, 2.0)])), {"ledgers": WARN}),
    "a cap is over": (
        only(told=metrics(cap_ledgers=[({"cap": "gpus", "state": "over"}, 1.0)])),
        {"ledgers": WARN},
    ),
    "a cap converges": (
        only(told=metrics(cap_ledgers=[({"cap": "gpus", "state": "converging"}, 1.0)])),
        {"ledgers": WARN},
    ),
    "ledgers cannot be visited": (
        only(told=metrics(ledger_visits_total=[({"result": "failed"}, 3.0)])),
        {"ledgers": WARN},
    ),
    "a right is missing": ({"rights": without("delete leases.coordination.k8s.io")}, {"rights": FAIL}),
    "a right is missing that may not be needed": (
        {"rights": without("delete leases.coordination.k8s.io"), "deployment": UNSEEN, "replicas": UNSEEN},
        {
            "rights": WARN,
            "failure-policy": UNKNOWN,
            "replicas": UNKNOWN,
            "policies": UNKNOWN,
            "watches": UNKNOWN,
            "ledgers": UNKNOWN,
        },
    ),
    "rights cannot be asked": ({"rights": UNSEEN}, {"rights": UNKNOWN}),
    "a replica's clock is ahead": (only(ahead=20.0), {"clocks": WARN}),
    "a replica's clock is far behind": (only(ahead=-400.0), {"clocks": FAIL}),
    "the keeper's clock is ahead": ({"lease": lease(timedelta(seconds=30))}, {"clocks": WARN}),
    "the API server tells no time": ({"ahead": None}, {"clocks": UNKNOWN}),
    "a quota below a cap": (
        {"quotas": (quota({"requests.nvidia.com/gpu": "2"}),), "bounds": capped()},
        {"quotas": WARN},
    ),
    "a quota above a cap": ({"quotas": (quota({"limits.cpu": "3"}),), "bounds": capped()}, {"quotas": WARN}),
    "quotas cannot be listed": ({"quotas": UNSEEN}, {"quotas": UNKNOWN}),
    "caps are not known": ({"bounds": UNSEEN}, {"quotas": UNKNOWN}),
    "a node advertises an opaque name": (
        {"users": (User("Node", "", "n1", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "a pod asks for an opaque name": (
        {"users": (User("Pod", "team-a", "p", "pod.alpha.kubernetes.io/opaque-int-resource-x"),)},
        {"opaque-names": WARN},
    ),
    "nodes and pods cannot be listed": ({"users": UNSEEN}, {"opaque-names": UNKNOWN}),
}


def test_of_a_gate_that_is_well_nothing_is_wrong() -> None:
    assert wrong(well()) == {}


@pytest.mark.parametrize("case", CASES)
def test_what_is_different_is_found_and_nothing_else(case: str) -> None:
    changes, expected = CASES[case]
    assert wrong(well(**changes)) == expected


def test_every_check_can_be_worse_than_pass_for_a_reason_that_is_not_blindness() -> None:
    found = {name for _, levels in CASES.values() for name, level in levels.items() if level in {FAIL, WARN}}
    assert found == {check.name for check in CHECKS}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_says_why_in_one_line(case: str) -> None:
    changes, expected = CASES[case]
    for name in expected:
        found = said(name, well(**changes))
        assert found.reason
        assert "\n" not in found.reason
        assert all(command.startswith(("kubectl ", "tallygate ", "timedatectl ")) for command in found.mend)


@pytest.mark.parametrize(
    "changes",
    [
        {"quotas": (quota({"requests.nvidia.com/gpu": "4"}),), "bounds": capped()},
        {"quotas": (quota({"requests.nvidia.com/gpu": "2"}, scopes=["BestEffort"]),), "bounds": capped()},
        {"quotas": (quota({"requests.nvidia.com/gpu": "9"}),), "bounds": capped(whole=False)},
        {"quotas": (quota({"limits.cpu": "2000m", "pods": "5"}),), "bounds": capped()},
        {"others": (later("aa"), later("zz"))},
        {"spaces": (Space("default", {}), Space("kube-system", {}))},
        {"rights": without("create secrets", "list cronjobs.batch"), "deployment": deployment(arguments=ARGUMENTS)},
    ],
)
def test_what_is_no_fault_passes(changes: dict[str, Any]) -> None:
    assert wrong(well(**changes)) == {}


def test_nothing_registered_leaves_everything_about_it_unknown() -> None:
    found = wrong(well(mutating=None, validating=None))
    assert found.pop("registered") is FAIL
    assert set(found.values()) == {UNKNOWN}


def test_rights_of_what_the_gate_was_not_started_for_are_not_asked_for() -> None:
    lacking = without("get secrets/tallygate-tls", "list openreports.io")
    arguments = (*ARGUMENTS, "--tls-secret=tallygate-system/tallygate-tls")
    found = said("rights", well(rights=lacking, deployment=deployment(arguments=arguments)))
    assert (found.level, found.mend) == (
        FAIL,
        ("kubectl apply --filename=deploy/kustomize/components/self-signed/rbac.yaml",),
    )


def test_what_is_called_by_url_is_judged_by_what_it_shows() -> None:
    trusted = pem(authority())
    for refusal, expected in (("", Level.PASS), ("hostname mismatch", FAIL)):
        shown = Shown(pem(leaf()), {trusted: refusal})
        facts = well(**registered(by_url), served=shown, deployment=None, secret=None)
        found = said("trusted", facts)
        assert found.level is expected
        assert refusal in found.reason
        assert said("failure-policy", facts).level is Level.PASS


def test_what_mends_a_certificate_goes_by_who_makes_it() -> None:
    def injected(mutating: Object, _: Object) -> None:
        mutating["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "tallygate-system/tallygate"}

    old = secret(pem(leaf(NOW - timedelta(days=85))))
    by_itself = deployment(arguments=(*ARGUMENTS, "--tls-secret=tallygate-system/tallygate-tls"))
    within = "kubectl --namespace=tallygate-system"
    assert said("certificate", well(secret=old)).mend[0] == "tallygate certs renew certs.d/"
    assert said("certificate", well(secret=old, deployment=by_itself)).mend[0] == (
        f"{within} annotate secret tallygate-tls tallygate.dev/renew=certificate --overwrite"
    )
    assert (
        said("certificate", well(secret=old, **registered(injected))).mend[0] == f"{within} delete secret tallygate-tls"
    )


def test_a_bundle_that_is_right_elsewhere_is_what_mends_a_wrong_one() -> None:
    found = said("trusted", well(**trusting(b"")))
    assert len(found.mend) == 1
    assert base64.b64encode(pem(authority())).decode() in found.mend[0]


def test_ignore_hides_whether_anybody_was_asked() -> None:
    def ignore(mutating: Object, validating: Object) -> None:
        for each in (*mutating["webhooks"], *validating["webhooks"]):
            each["failurePolicy"] = "Ignore"

    facts = well(**registered(ignore), attempts=(Attempt("p", "default", 201, ""),))
    assert said("reachable", facts).level is UNKNOWN


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf"), 1e300, -1.0])
def test_what_a_replica_tells_may_be_anything(odd: float) -> None:
    told = {
        name.removeprefix("tallygate_"): [({"cap": "a\nb", "state": "over", "result": "failed"}, odd)]
        for name in metrics().samples
    }
    for found in results(well(replicas=(replica(told=metrics(**told)),))):
        assert "\n" not in found.said.reason


def test_the_readiness_of_a_replica_may_be_anything() -> None:
    odds: tuple[Object, ...] = (
        {},
        {"checks": {"policies": 3, "cluster": {"pods": "x"}}},
        READY | {"status": 5},
        {"checks": []},
    )
    for odd in odds:
        facts = well(replicas=(replica(readiness=odd),))
        assert said("replicas", facts).level is FAIL
        wrong(facts)
