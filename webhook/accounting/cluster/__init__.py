"""A cluster in columns: what nodes have, what pods on them use, and what decides who may run where.

The rule of this room: values that change in place, by one node or one pod at a time, in microseconds; one place per
node in every column, one record for all pods alike. No verdict is made here (`fit` makes them), nothing is fetched.
Not to be used by two threads at once.
"""

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.nodes import Nodes
from webhook.accounting.cluster.pods import Placed, placed
from webhook.accounting.cluster.shapes import Port, Shape, Shapes
from webhook.accounting.cluster.taking import take

__all__ = ["Cluster", "Nodes", "Placed", "Port", "Shape", "Shapes", "placed", "take"]
