"""Whether a pod can run, on which nodes, and why not on the others: kube-scheduler's verdict, from columns.

The rule of this room: filters ask all nodes at once and change nothing; each names the plugin that it follows. What the
default profile of Kubernetes 1.36 would answer is the truth; what is not modelled is named as unknown, never guessed.
"""
