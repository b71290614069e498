"""AdmissionReviews exactly as a real kube-apiserver 1.36 sent them, put through the real server over TLS.

`cases/` holds the reviews, `answers/` what the server answers under the shipped policies. When an answer is meant to
change, write it anew with `python -m tests.reviews` and read the difference.
"""
