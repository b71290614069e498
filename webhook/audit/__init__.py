"""The audit: what is stored already, judged as if it came now, and what is said of it where people look.

The rule of this room: it judges with what the gate judges with (`admission.decide`, `gate.foresight`, `gate.sight`) and
adds nothing to it but whose an object is. It changes nothing in a cluster but its own reports. Objects go through page
by page; of what is found as much is kept as somebody may read, and all of it is counted. How fast it goes is said by
who calls it.
"""
