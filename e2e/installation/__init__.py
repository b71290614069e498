"""The objects of deploy/ on a real API server: rendered, applied, run with their own rights, and removed.

The rule of this package: what is applied is what kustomize and Helm make of deploy/, changed only in where the gate is
reached, since on the local control plane it is a process beside it. Where nodes run it, what is typed is what the pages
of docs/ say.
"""
