"""AdmissionReviews exactly as a real kube-apiserver 1.36 sent them, sent to the real server over TLS.

`cases/` has the reviews, `answers/` the responses of the server under the shipped policies. After an intended change
of a response, `python -m tests.reviews` writes all of them; read the difference.
"""
