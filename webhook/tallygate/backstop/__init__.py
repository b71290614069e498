"""Objects of Kubernetes that enforce a part of the policies while no gate answers.

None denies what the gate allows; what they cannot say is a gap by name.
"""
