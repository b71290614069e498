"""Documents: YAML and JSON text as trees whose nodes carry their positions.

Policies, manifests and scenarios share one parser and one tree. They differ in the dialect of their scalars: manifests
are read as kubectl reads them (YAML 1.1), policies and scenarios by the core schema of YAML 1.2.
"""
