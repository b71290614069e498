"""What a node says that it has.

Source: ValidateNodeResources in pkg/apis/core/validation/validation.go and SetDefaults_NodeStatus in
pkg/apis/core/v1/defaults.go, v1.36.
"""

from webhook.accounting.asks import read_list
from webhook.accounting.problem import Problem
from webhook.accounting.validation.unreadable import list_problems, readable
from webhook.accounting.validation.values import value_problems
from webhook.objects.cluster import Node
from webhook.objects.pods import ResourceList


def node_lists(node: Node) -> tuple[tuple[str, ResourceList | None], ...]:
    """Both lists of a node's status with their paths. Absent allocatable is what capacity is."""
    if node.status is None:
        return ()
    capacity, allocatable = node.status.capacity, node.status.allocatable
    return ("status.capacity", capacity), ("status.allocatable", capacity if allocatable is None else allocatable)


def validate_node(node: Node) -> list[Problem]:
    """Everything the API server says of a node's resources. It does not look at names."""
    problems: list[Problem] = []
    for path, listed in node_lists(node):
        problems += list_problems(path, listed)
        for name, quantity in read_list(readable(listed)).items():
            problems += value_problems(entry_path(path, name), name, quantity)
    return problems


def entry_path(path: str, name: str) -> str:
    """The path of one resource; Kubernetes puts a dot before it, but writes an empty name as an index."""
    return f"{path}.{name}" if name else f"{path}[]"
