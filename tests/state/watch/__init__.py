"""Following a cluster by lists and watches."""
