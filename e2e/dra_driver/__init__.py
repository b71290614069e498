"""The example driver of Kubernetes for devices, built from its Go module: it runs in a pod, for a real kubelet."""
