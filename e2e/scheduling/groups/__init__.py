"""PodGroups on a real kube-scheduler with the gate GenericWorkload, compared with the predictions of their pods.

`python -m e2e.scheduling.groups --cases 500` draws clusters with a group each.
"""
