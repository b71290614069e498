"""The server: settings, the layer, and real servers over TLS."""
