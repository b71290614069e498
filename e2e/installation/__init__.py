"""What deploy/ comes to, put to a real API server: rendered, applied, run with its own rights, and taken away.

The rule of this room: what is applied is what kustomize and Helm make of deploy/, changed only in where the gate is
reached, since on the local control plane it is a process beside it. Where nodes run it, what is typed is what the pages
of docs/ say.
"""
