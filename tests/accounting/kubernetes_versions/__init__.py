"""The rules that differ by version of Kubernetes: a case for each switch of the table, with both answers."""
