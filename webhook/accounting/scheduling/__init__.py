"""The verdict of kube-scheduler 1.36 on a pod, computed for all nodes at once from columns.

What is not modelled is reported, never guessed.
"""
