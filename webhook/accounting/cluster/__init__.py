"""A cluster in columns: what nodes have, what pods on them use, and what decides who may run where.

The rule of this room: values that change in place, by one node or one pod at a time, in microseconds; one place per
node in every column, one record for all pods alike. No verdict is made here (`fit` makes them), nothing is fetched.
Not to be used by two threads at once.
"""

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.nodes import NodeColumns
from webhook.accounting.cluster.pods import PodInfo, create_pod_info
from webhook.accounting.cluster.shapes import HostPort, SchedulingGroup, SchedulingGroupInterner
from webhook.accounting.cluster.taking import ingest

__all__ = [
    "Cluster",
    "HostPort",
    "NodeColumns",
    "PodInfo",
    "SchedulingGroup",
    "SchedulingGroupInterner",
    "create_pod_info",
    "ingest",
]
