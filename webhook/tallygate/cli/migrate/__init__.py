"""The command `tallygate migrate opaque-resources`: uses of opaque names, and the edits that rename them in five steps.

Both names have the same amount at every step, and no pod requests the new name alone while another one requests the
old name alone. So the amount of one name always limits all pods: a node is never overcommitted, and a pod that would
fit by the old name fits by both.
"""
