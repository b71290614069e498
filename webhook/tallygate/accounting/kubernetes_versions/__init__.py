"""The minor versions of Kubernetes that are modelled, and the rules in which they differ.

`switches` is the one table of these rules, and of the feature gates with their defaults. A reader asks the
version of its cluster: `version.has(Switch.SUMS_RESIZES)`. No other module compares versions.
"""
