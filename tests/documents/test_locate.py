"""From field paths to lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DEFAULT_LIMITS, Node, locate

TEXT = """\
metadata:
  labels: {example.com/tier: gold}
spec:
  overhead: {cpu: 1}
  containers:
  - &first
    name: a
    resources:
      limits:
        nvidia.com/gpu: 2
        weird.name/with.dots: 1
  - <<: *first
    name: b
  - name: c
    resources: {}
status:
  capacity:
    nvidia.com/gpu: 3
    plain: 1
"""


def read_root() -> Node:
    """Return the document of `TEXT`."""
    return next(read_documents(TEXT, DEFAULT_LIMITS)).root


@pytest.mark.parametrize(
    ("path", "line", "column", "exact"),
    [
        pytest.param("", 1, 1, True, id="no path is the object"),
        pytest.param("spec", 3, 1, True, id="a field is its key"),
        pytest.param("spec.containers[0]", 6, 5, True, id="an item is where it begins"),
        pytest.param("spec.containers[0].resources.limits[nvidia.com/gpu]", 10, 9, True, id="a resource is its key"),
        pytest.param("spec.containers[0].resources.limits[weird.name/with.dots]", 11, 9, True, id="dots in brackets"),
        pytest.param(
            "spec.containers[0].resources.requests[nvidia.com/gpu]", 8, 5, False, id="the parent of a missing field"
        ),
        pytest.param("spec.containers[1].resources.limits[nvidia.com/gpu]", 10, 9, True, id="a field of a merge key"),
        pytest.param("spec.containers[2].resources.limits[x]", 15, 5, False, id="inside an empty mapping"),
        pytest.param("spec.containers[9].name", 5, 3, False, id="an index beyond the list"),
        pytest.param("spec.initContainers[0]", 3, 1, False, id="a missing list"),
        pytest.param("spec.overhead.limits[cpu]", 4, 14, True, id="the step that no manifest has"),
        pytest.param("status.capacity.nvidia.com/gpu", 18, 5, True, id="a node's resource after a dot"),
        pytest.param("status.capacity[nvidia.com/gpu]", 18, 5, True, id="and in brackets"),
        pytest.param("status.capacity.plain", 19, 5, True, id="a node's resource without a domain"),
        pytest.param("status.allocatable.nvidia.com/gpu", 16, 1, False, id="a missing list of a node"),
        pytest.param("metadata.labels[example.com/tier]", 2, 12, True, id="a label"),
        pytest.param("[]", 1, 1, False, id="an invalid path"),
        pytest.param("spec.resources.containers[1][cpu].limits", 3, 1, False, id="Kubernetes' oddest path"),
    ],
)
def test_a_field_path_is_located(path: str, line: int, column: int, *, exact: bool) -> None:
    """Locate the field, or its nearest parent."""
    location = locate(read_root(), path)
    assert (location.position.line, location.position.column, location.exact) == (line, column, exact)


@given(st.text(alphabet="spec.containers[0]resources{}/limits#~ \n", max_size=60) | st.text(max_size=20))
def test_any_path_is_located_inside_the_text(path: str) -> None:
    """Locate invalid paths too."""
    assert 1 <= locate(read_root(), path).position.line <= TEXT.count("\n")
