"""The caps of this world: one of each namespace, and one of all together, which may be taken out.

Each selects namespaces by a label of its own name, so that a namespace may leave one of them and return.
"""

from tests.admission.case import policies
from webhook.admission.cap_index import CapIndex

NAMES = ("each", "together")
_EACH, _TOGETHER = 4, 9
_CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{include: ["team-*"], selector: {{matchLabels: {{{name}: "yes"}}}}}}
  shared: {shared}
  hard: {{nvidia.com/gpu: {hard}}}
"""
_ONE = _CAPS.format(name="each", shared="false", hard=_EACH)
_OTHER = _CAPS.format(name="together", shared="true", hard=_TOGETHER)
WITH, WITHOUT = CapIndex(policies(f"{_ONE}---{_OTHER}")), CapIndex(policies(_ONE))
"""Both caps, and the one of each namespace alone."""
