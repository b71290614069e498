"""How much policy text is read at all.

Every bound is checked before the work it bounds. They stand far above what people write and far below what hurts: a
ConfigMap holds 1 MiB, a set of 1,000 rules is some 20,000 nodes in 400 kB.
"""

MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 8 << 20
MAX_LINES = 50_000
"""Lines of one file."""

MAX_FILES = 1_000
MAX_DOCUMENTS = 2_000
"""Documents of all files together; lint compares them with one another."""

MAX_NODES = 50_000
"""Scalars, lists and mappings of one file."""

MAX_EXPANDED_NODES = 10_000
"""Nodes of one document when every alias is written out."""

MAX_DEPTH = 32
"""Lists and mappings inside one another; a policy needs eight."""

MAX_FINDINGS_PER_FILE = 200
"""Findings shown of one file; what lies beyond is counted."""
