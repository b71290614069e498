"""The Common Expression Language as Kubernetes evaluates it: text to a checked syntax tree, and the tree to a program.

It follows cel-go v0.26 and k8s.io/apiserver/pkg/cel/library v1.36; each module names its files. Nothing is guessed: a
function or a value that is not supported is a problem of the expression or a failure of its evaluation, never a result.
"""
