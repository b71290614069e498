"""The web: Flask, the admission layer in front of it, and what is said of an answer. Bytes in and bytes out."""
