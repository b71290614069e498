"""The server: settings, the middleware, and real servers over TLS."""
