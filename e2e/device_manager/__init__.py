"""The kubelet's manager of device plugins as a program: its own code, without the rest of a kubelet."""
