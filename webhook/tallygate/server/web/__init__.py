"""WSGI and Flask: the admission endpoints, health and errors as bytes in and bytes out."""
