"""The decision of kube-scheduler 1.36 on a pod, computed for all nodes at once from columns.

Features that are not modelled are reported, never guessed.
"""
