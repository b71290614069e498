"""The command `check`: it evaluates manifests as the gate would and puts each problem next to its line."""
