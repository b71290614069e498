"""The objects by which commands find the policies of a gate in a cluster."""

from tests.cli.usage.clusters import Object
from tests.server.small_cluster import SmallCluster

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
DEPLOYMENT = "/apis/apps/v1/namespaces/tallygate-system/deployments/tallygate"
CONFIG_MAP = "/api/v1/namespaces/tallygate-system/configmaps/policies"


def install_gate(cluster: SmallCluster, files: dict[str, str]) -> None:
    """Store the webhook configurations, the Deployment and the ConfigMap of a gate with these policy files."""
    service = {"clientConfig": {"service": {"namespace": "tallygate-system", "name": "tallygate"}}, "name": "a"}
    for kind in ("mutating", "validating"):
        path = f"{CONFIGURATIONS}/{kind}webhookconfigurations/tallygate"
        cluster.stored[path] = {"metadata": {"name": "tallygate"}, "webhooks": [service]}
    cluster.stored[DEPLOYMENT] = {"metadata": {"name": "tallygate"}, "spec": {"template": {"spec": _create_pod()}}}
    cluster.stored[CONFIG_MAP] = {"data": files}


def _create_pod() -> Object:
    mount = {"name": "policies", "mountPath": "/policies"}
    container = {"name": "tallygate", "args": ["serve", "--policies=/policies"], "volumeMounts": [mount]}
    return {"containers": [container], "volumes": [{"name": "policies", "configMap": {"name": "policies"}}]}
