"""Where the suite runs: a control plane on this machine, a kind cluster, or a cluster that is there already.

The rule of this package: each module gives the same small interface (`e2e.ports`), and knows no other.
"""
