"""The codes of findings about published amounts, with the texts of `tallygate explain`."""

from tallygate.accounting.problem import Code

BAD_PUBLISHED = "TG355"
PUBLISHED_TWICE = "TG356"

NODE_RESOURCE_CODES: tuple[Code, ...] = (
    Code(
        BAD_PUBLISHED,
        "policy-bad-published",
        "A NodeResource has an amount that no node can get.",
        "An amount is a whole number, or one field of the node in chunks of `unit`, less the whole number `minus`.",
        "resources: {example.com/ip: {from: podCIDR, fromLabel: ips}}",
        "resources: {example.com/ip: {from: podCIDR, minus: 3}}",
    ),
    Code(
        PUBLISHED_TWICE,
        "policy-published-twice",
        "Two NodeResources may give one node different amounts of a resource.",
        "On a node that both select, neither amount is published, since it is unknown which one is meant.",
        "spec: {resources: {example.com/port: 8}}\n# beside\nspec: {resources: {example.com/port: 16}}",
        "spec: {nodes: {selector: {matchLabels: {nic: small}}}, resources: {example.com/port: 8}}\n# beside\n"
        "spec: {nodes: {selector: {matchLabels: {nic: large}}}, resources: {example.com/port: 16}}",
    ),
)
