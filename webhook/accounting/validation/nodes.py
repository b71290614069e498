"""What a node says that it has.

Source: ValidateNodeResources in pkg/apis/core/validation/validation.go and SetDefaults_NodeStatus in
pkg/apis/core/v1/defaults.go, v1.36.
"""

from webhook.accounting.asks import parse_resource_list
from webhook.accounting.problem import Problem
from webhook.accounting.validation.unreadable import check_resource_list, drop_unreadable
from webhook.accounting.validation.values import check_value
from webhook.objects.cluster import Node
from webhook.objects.pods import ResourceList


def list_node_resources(node: Node) -> tuple[tuple[str, ResourceList | None], ...]:
    """Both lists of a node's status with their paths. Absent allocatable is what capacity is."""
    if node.status is None:
        return ()
    capacity, allocatable = node.status.capacity, node.status.allocatable
    return ("status.capacity", capacity), ("status.allocatable", capacity if allocatable is None else allocatable)


def validate_node(node: Node) -> list[Problem]:
    """Everything the API server says of a node's resources. It does not look at names."""
    problems: list[Problem] = []
    for path, resource_list in list_node_resources(node):
        problems += check_resource_list(path, resource_list)
        for name, quantity in parse_resource_list(drop_unreadable(resource_list)).items():
            problems += check_value(format_entry_path(path, name), name, quantity)
    return problems


def format_entry_path(path: str, name: str) -> str:
    """The path of one resource; Kubernetes puts a dot before it, but writes an empty name as an index."""
    return f"{path}.{name}" if name else f"{path}[]"
