"""Flask applications, the HTTPS server under them and the controllers beside them.

Bytes go to the gate and come back, and no module decides.
"""
