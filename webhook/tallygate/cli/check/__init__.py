"""The command `check`: it evaluates manifests as the gate would and puts each problem beside its line."""
