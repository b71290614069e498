"""The codes of findings about implied requests, with the texts of `tallygate explain`."""

from tallygate.accounting.problem import Code

BAD_IMPLIED = "TG353"
IMPLIED_TWICE = "TG354"

IMPLIED_CODES: tuple[Code, ...] = (
    Code(
        BAD_IMPLIED,
        "policy-bad-implied",
        "An ImpliedRequest names something that no pod can be given.",
        "Only extended resources are counted by nodes and by nothing else: Kubernetes and the container runtime act on "
        "cpu and memory, and every container needs its own. A counted amount is a whole number from 1 on.",
        "spec: {resource: cpu, perPod: 1}",
        "spec: {resource: example.com/ip, perPod: 1}",
    ),
    Code(
        IMPLIED_TWICE,
        "policy-implied-twice",
        "Two ImpliedRequests for one resource may match the same pod.",
        "A pod gets one request for a resource: that of the first ImpliedRequest in the order of the files.",
        "spec: {resource: example.com/ip, perPod: 2}\n# beside\nspec: {resource: example.com/ip, perPod: 1}",
        "spec: {resource: example.com/ip, perPod: 2, match: {objectSelector: {matchLabels: {net: dual}}}}\n# beside\n"
        "spec: {resource: example.com/ip, match: {objectSelector: {matchExpressions: [{key: net, operator: NotIn, "
        "values: [dual]}]}}}",
    ),
)
