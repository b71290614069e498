"""The command `serve`, and the controller that connects the package `certs` with the server."""
