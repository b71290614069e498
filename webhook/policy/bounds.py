"""The bounds of policy text.

Each bound is checked before the work that it limits. The bounds are far above real policies and far below a size that
harms the gate: a ConfigMap has at most 1 MiB, a set of 1,000 rules is some 20,000 nodes in 400 kB.
"""

MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 8 << 20
MAX_LINES = 50_000
"""Lines of one file."""

MAX_FILES = 1_000
MAX_DOCUMENTS = 2_000
"""Documents of all files together; lint compares them in pairs."""

MAX_NODES = 50_000
"""Scalars, lists and mappings of one file."""

MAX_EXPANDED_NODES = 10_000
"""Nodes of one document when every alias is written out."""

MAX_DEPTH = 32
"""Lists and mappings inside one another; a policy needs eight."""

MAX_FINDINGS_PER_FILE = 200
"""Findings shown per file; one more notes that there are others."""
