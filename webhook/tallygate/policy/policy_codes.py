"""The codes of findings about policy files, with the texts of `tallygate explain`.

TG30x to TG32x concern the form of a file, TG33x to TG35x its meaning.
"""

from tallygate.accounting.problem import Code

UNREADABLE = "TG301"
TOO_LARGE = "TG302"
SYNTAX = "TG303"
YAML_FEATURE = "TG304"
DUPLICATE_KEY = "TG305"
UNKNOWN_KIND = "TG306"
UNKNOWN_FIELD = "TG307"
MISSING_FIELD = "TG308"
WRONG_TYPE = "TG309"
UNKNOWN_VALUE = "TG310"
BAD_QUANTITY = "TG311"
BAD_PATTERN = "TG312"
BAD_LABEL = "TG313"
BAD_NAME = "TG314"
BAD_LENGTH = "TG315"
DUPLICATE_POLICY = "TG316"
BAD_COUNTED_NAME = "TG317"
AMBIGUOUS_NUMBER = "TG318"
TEXT_CUT = "TG319"
BAD_DEVICES = "TG320"
BAD_PATH = "TG321"
BAD_POD_SET = "TG322"
BAD_COUNTS = "TG323"
BAD_TIME = "TG324"
MATCHES_NOTHING = "TG330"
CHECK_WITHOUT_KIND = "TG331"
SHADOWED = "TG332"
CONTRADICTORY = "TG333"
IMPOSSIBLE_BOUNDS = "TG334"
FRACTIONAL = "TG335"
SOFT_OVER_HARD = "TG336"
CHECKS_NOTHING = "TG337"
NAMED_TWICE = "TG338"
MISSPELT_RESOURCE = "TG339"
SAME_AS_PLAIN = "TG341"
REPEATED = "TG342"
CLAIMS_NOT_COUNTED = "TG343"
KIND_IS_READ = "TG344"
KIND_NOT_READ = "TG345"
BAD_OVERRIDE = "TG346"
OVERRIDE_ENDED = "TG347"
ODD_UNIT = "TG348"
UNKNOWN_ANNOTATION = "TG349"
BAD_IMPLIED = "TG353"
IMPLIED_TWICE = "TG354"
BAD_PUBLISHED = "TG355"
PUBLISHED_TWICE = "TG356"

CODES: tuple[Code, ...] = (
    Code(
        UNREADABLE,
        "policy-unreadable",
        "A policy file or folder cannot be read as text.",
        "Policies are UTF-8 text in files named *.yaml, *.yml or *.json; anything else is a mistake or an attack.",
        "a file with a NUL byte, in UTF-16, or a folder without any policy file",
        "policies/default.yaml, saved as UTF-8",
    ),
    Code(
        TOO_LARGE,
        "policy-too-large",
        "A policy file is larger, deeper or more repetitive than is read.",
        "Bounds are checked before work is done, so that no file can take the gate's memory or time.",
        "a file of 50 MB, a list 40 deep, or aliases that repeat one another",
        "files below 1 MiB, as in a ConfigMap, with values written out",
    ),
    Code(
        SYNTAX,
        "policy-syntax",
        "The text is not YAML.",
        "Only what parses can be judged; reading goes on at the next document, so other errors are still shown.",
        "resources: [nvidia.com/gpu",
        "resources: [nvidia.com/gpu]",
    ),
    Code(
        YAML_FEATURE,
        "policy-yaml-feature",
        "A part of YAML that policies do not use: type tags, merge keys, keys that are no text, unknown aliases.",
        "They construct things, hide what a rule says, or read differently in every tool.",
        "spec: {<<: *base, resources: [nvidia.com/gpu]}",
        "spec: {resources: [nvidia.com/gpu], checks: {perPod: {max: 8}}}",
    ),
    Code(
        DUPLICATE_KEY,
        "policy-duplicate-key",
        "A key is written twice in one mapping.",
        "YAML readers silently keep one of the two, and not all the same one.",
        "hard: {nvidia.com/gpu: 8, nvidia.com/gpu: 4}",
        "hard: {nvidia.com/gpu: 8}",
    ),
    Code(
        UNKNOWN_KIND,
        "policy-unknown-kind",
        "A document does not say, or not rightly, what it is.",
        "The kinds are ResourceRule, NamespaceCap, WorkloadKind and NodeShape, of apiVersion tallygate.dev/v1alpha1.",
        "apiVersion: tallygate.dev/v1\nkind: ResourceRules",
        "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule",
    ),
    Code(
        UNKNOWN_FIELD,
        "policy-unknown-field",
        "A field that this kind does not have.",
        "A field that is silently ignored is a rule that its author relies on and that has no effect.",
        "spec: {resource: [nvidia.com/gpu]}",
        "spec: {resources: [nvidia.com/gpu]}",
    ),
    Code(
        MISSING_FIELD,
        "policy-missing-field",
        "A field that must be there is not.",
        "Without it the policy has no name, or nothing it speaks of.",
        "kind: ResourceRule\nmetadata: {name: whole-gpus}\nspec: {}",
        "kind: ResourceRule\nmetadata: {name: whole-gpus}\nspec: {resources: [nvidia.com/gpu]}",
    ),
    Code(
        WRONG_TYPE,
        "policy-wrong-type",
        "A value is of another type than its field.",
        "A list is not a text and `yes` is not true: what is meant must be written.",
        "shared: yes",
        "shared: true",
    ),
    Code(
        UNKNOWN_VALUE,
        "policy-unknown-value",
        "A field has a value that is not in its fixed set of values.",
        "A misspelt enforcement must not fall back to another one.",
        "enforcement: block",
        "enforcement: deny",
    ),
    Code(
        BAD_QUANTITY,
        "policy-bad-quantity",
        "A quantity is not what Kubernetes reads as one, is negative, or is too large to count.",
        "Bounds and caps are compared exactly with the requests of pods, in the grammar of Kubernetes.",
        "hard: {memory: 64GB}",
        "hard: {memory: 64Gi}",
    ),
    Code(
        BAD_PATTERN,
        "policy-bad-pattern",
        "A glob contains a character that no name can contain.",
        "Only * (any run) and ? (one character) are wild; a pattern that can match nothing protects nothing.",
        'resources: ["nvidia.com/[ab]*"]',
        'resources: ["nvidia.com/a*", "nvidia.com/b*"]',
    ),
    Code(
        BAD_LABEL,
        "policy-bad-label",
        "A label key, label value or selector is not what Kubernetes allows.",
        "No object can carry such a label, so the selector would select nothing.",
        'matchLabels: {"team name": vision}',
        "matchLabels: {example.com/team: vision}",
    ),
    Code(
        BAD_NAME,
        "policy-bad-name",
        "A name is not a DNS subdomain (lowercase letters, digits, - and .).",
        "Names of policies appear in messages, metrics and names of ledgers.",
        "metadata: {name: Whole GPUs}",
        "metadata: {name: whole-gpus}",
    ),
    Code(
        BAD_LENGTH,
        "policy-bad-length",
        "A list, mapping or text is empty where something must be, or longer than is read.",
        "An empty list is more often a slip than a meaning; leave the field out to mean everything.",
        "resources: []",
        "resources: [extended, opaque]",
    ),
    Code(
        DUPLICATE_POLICY,
        "policy-duplicate-name",
        "Two policies of one kind have the same name.",
        "Messages, exemptions and ledgers name policies; two of one name cannot be distinguished.",
        "two ResourceRules named whole-gpus",
        "whole-gpus and whole-dongles",
    ),
    Code(
        BAD_COUNTED_NAME,
        "policy-bad-counted-name",
        "A cap counts a name that pods cannot request.",
        "A cap counts resources (`X`, `requests.X`), limits (`limits.X`) and `pods`; a ResourceQuota counts the rest.",
        "hard: {gpu: 8}",
        "hard: {nvidia.com/gpu: 8, limits.memory: 64Gi, pods: 50}",
    ),
    Code(
        AMBIGUOUS_NUMBER,
        "policy-ambiguous-number",
        "A number without quotes that other YAML readers take for a different one.",
        "A leading zero means eight to YAML 1.1 (`010` is 8) and nothing here (`010` is 10).",
        "hard: {pods: 010}",
        "hard: {pods: 10}",
    ),
    Code(
        TEXT_CUT,
        "policy-text-cut",
        "A text without quotes ends at a comment.",
        "In YAML a # after a space begins a comment, so users are shown half of a sentence.",
        "annotations:\n  tallygate.dev/why: at most 4 GPUs; ask in #gpu for more",
        'annotations:\n  tallygate.dev/why: "at most 4 GPUs; ask in #gpu for more"',
    ),
    Code(
        BAD_DEVICES,
        "policy-bad-devices",
        "A definition in spec.devices cannot be used: its expression does not compile, or it counts in two ways.",
        "Classes count devices when they are claimed; selector and sum count them when they are allocated. The "
        "expression is compiled as the API server compiles the selector of a DeviceClass.",
        "devices: {h100: {selector: device.model}}",
        """devices: {h100: {selector: 'device.attributes["gpu.example.com"].model == "h100"'}}""",
    ),
    Code(
        BAD_PATH,
        "policy-bad-path",
        "A path of a WorkloadKind cannot be read, or its wildcards are not those of the template.",
        "A path has the names of fields with dots between them. `[*]` is each item of a list and `.*` each value of a "
        "mapping; the wildcards of a count stand for the same items as those of its template, so both begin alike.",
        "template: spec.tasks[*].template\ncount: ['spec.roles[*].replicas']",
        "template: spec.tasks[*].template\ncount: ['spec.tasks[*].replicas']",
    ),
    Code(
        BAD_POD_SET,
        "policy-bad-pod-set",
        "An entry of spec.pods of a WorkloadKind does not define pods and their number.",
        "It has one of template, podSpec and resources; a factor of its count has `field` or `least`, and one of the "
        "fields of `least` has a default, since otherwise the number is unknown where all are absent.",
        "count: [{least: [spec.parallelism, spec.completions]}]",
        "count: [{least: [{field: spec.parallelism, default: 1}, spec.completions]}]",
    ),
    Code(
        BAD_COUNTS,
        "policy-bad-counts",
        "A definition in spec.counts cannot be used: it counts in two ways.",
        "weights add up several resources, a product multiplies those of each container; one name has one of both.",
        "counts: {slices: {weights: {nvidia.com/gpu: 7}, product: [nvidia.com/gpu, nvidia.com/gpumem]}}",
        "counts: {slices: {weights: {nvidia.com/gpu: 7}}}",
    ),
    Code(
        BAD_TIME,
        "policy-bad-time",
        "An end is neither a time with its zone nor a date.",
        "A limit that ends by itself ends at one moment in every replica, so its time needs a zone.",
        "until: next Friday",
        "until: 2026-12-04T18:00:00Z",
    ),
    Code(
        MATCHES_NOTHING,
        "policy-matches-nothing",
        "A rule or cap that no request can ever meet.",
        "What it includes, it also excludes: its author believes in a protection that is not there.",
        'resources: ["!nvidia.com/gpu"]',
        'resources: ["*", "!nvidia.com/gpu"]',
    ),
    Code(
        CHECK_WITHOUT_KIND,
        "policy-check-without-kind",
        "A check that makes no sense for any of the kinds the rule is for.",
        "Nodes and quotas have no containers: only names and whole quantities are judged there.",
        "match: {kinds: [Node]}\nchecks: {perContainer: {max: 8}}",
        "match: {kinds: [Pod]}\nchecks: {perContainer: {max: 8}}",
    ),
    Code(
        SHADOWED,
        "policy-shadowed",
        "A rule says nothing that another one does not say already.",
        "Two places to edit, one of which changes nothing.",
        "whole-gpus for nvidia.com/gpu next to whole-all for nvidia.com/*, with the same checks",
        "whole-all alone",
    ),
    Code(
        CONTRADICTORY,
        "policy-contradictory",
        "Two denying rules for the same requests that no amount can satisfy together.",
        "Every request that both are for would be refused, whatever it asks.",
        "one rule: perContainer: {oneOf: [1, 2]}; another on the same resource: perContainer: {min: 4}",
        "narrow one of them by resources, namespaces or kinds",
    ),
    Code(
        IMPOSSIBLE_BOUNDS,
        "policy-impossible-bounds",
        "Bounds that no amount can satisfy, or a part of them that none can reach.",
        "min above max, a value of oneOf outside min, max or multipleOf, or a container's min above the pod's max.",
        "perContainer: {min: 4, max: 2}",
        "perContainer: {min: 2, max: 4}",
    ),
    Code(
        FRACTIONAL,
        "policy-fractional",
        "A fraction of something that is counted in whole units.",
        "There is no half GPU: the cap would silently mean the whole number below it.",
        "hard: {nvidia.com/gpu: 1500m}",
        "hard: {nvidia.com/gpu: 2}",
    ),
    Code(
        SOFT_OVER_HARD,
        "policy-soft-over-hard",
        "A soft limit that can never warn before the hard limit denies.",
        "The charged amount never exceeds the hard limit, so the warning never appears.",
        "hard: {nvidia.com/gpu: 8}\nsoft: {nvidia.com/gpu: 10}",
        "hard: {nvidia.com/gpu: 8}\nsoft: {nvidia.com/gpu: 6}",
    ),
    Code(
        CHECKS_NOTHING,
        "policy-checks-nothing",
        "A rule or cap in which everything is switched off.",
        "It looks like a protection and has no effect.",
        "checks: {wellFormedName: false, wholeQuantity: false, requestsEqualLimits: false}",
        "checks: {wellFormedName: true}",
    ),
    Code(
        NAMED_TWICE,
        "policy-named-twice",
        "A cap names one resource twice: plain and with `requests.`.",
        "Both mean the requested amount; with two values it is unknown which one applies.",
        "hard: {cpu: 32, requests.cpu: 16}",
        "hard: {requests.cpu: 16}",
    ),
    Code(
        MISSPELT_RESOURCE,
        "policy-misspelt-resource",
        "A resource name that looks like a slip for a better known one.",
        "A rule or cap on a name that no pod uses has no effect.",
        "resources: [nvidia.com/gpus]",
        "resources: [nvidia.com/gpu]",
    ),
    Code(
        SAME_AS_PLAIN,
        "policy-same-as-plain",
        "A cap on the limits of something whose limit is always its request.",
        "Extended resources cannot be overcommitted: Kubernetes keeps request and limit equal; the plain name says it.",
        "hard: {limits.nvidia.com/gpu: 8}",
        "hard: {nvidia.com/gpu: 8}",
    ),
    Code(
        REPEATED,
        "policy-repeated",
        "A list says one thing twice, or a field says what another one says.",
        "The second one changes nothing; often another value was meant.",
        "oneOf: [1, 2, 2000m]",
        "oneOf: [1, 2, 4]",
    ),
    Code(
        CLAIMS_NOT_COUNTED,
        "policy-claims-not-counted",
        "A cap on devices selects pods by a condition that no claim for devices can meet.",
        "A ResourceClaim has no priority class and no node selector, so the cap counts only pods that request the "
        "resource, not claims for the same devices. Labels of claims count under `pods.objectSelector`.",
        "hard: {gpu.deviceclass.resource.k8s.io/devices: 8}\npods: {priorityClasses: [batch]}",
        "hard: {gpu.deviceclass.resource.k8s.io/devices: 8}\npods: {objectSelector: {matchLabels: {queue: batch}}}",
    ),
    Code(
        KIND_IS_READ,
        "policy-kind-is-read",
        "A WorkloadKind defines a kind that is read already.",
        "Kubernetes' kinds and those of many projects are read without a definition; of two definitions it is unknown "
        "which one applies.",
        "spec: {group: jobset.x-k8s.io, kind: JobSet, resource: jobsets}",
        "match: {kinds: [JobSet]}",
    ),
    Code(
        KIND_NOT_READ,
        "policy-kind-not-read",
        "A rule is for a kind that is not read.",
        "No object of this kind is evaluated, so the rule has no effect on it. A WorkloadKind can define the kind.",
        "match: {kinds: [Deploymnet]}",
        "match: {kinds: [Deployment]}",
    ),
    Code(
        BAD_OVERRIDE,
        "policy-bad-override",
        "An override names an amount that the cap does not limit, or selects what the cap does not separate.",
        "An override replaces limits of `hard`. Groups exist with `groupBy` only, and namespaces that share a cap have "
        "one limit.",
        "hard: {nvidia.com/gpu: 8}\noverrides: [{hard: {nvidia.com/gpus: 12}}]",
        "hard: {nvidia.com/gpu: 8}\noverrides: [{hard: {nvidia.com/gpu: 12}, until: 2026-12-04T18:00:00Z}]",
    ),
    Code(
        OVERRIDE_ENDED,
        "policy-override-ended",
        "An override of a cap has ended.",
        "It no longer changes any limit. Messages and `usage` name it as long as it is in the file.",
        "overrides: [{hard: {nvidia.com/gpu: 12}, until: 2020-12-04}]",
        "no overrides",
    ),
    Code(
        ODD_UNIT,
        "policy-odd-unit",
        "The unit of an amount does not fit its resource.",
        "An amount of memory without a unit is bytes, m stands for thousandths, and a device has no Gi: the limit is "
        "far from what was meant, and nothing reports it until pods are denied, or are not.",
        "hard: {nvidia.com/gpu: 8Gi, memory: 512}",
        "hard: {nvidia.com/gpu: 8, memory: 512Gi}",
    ),
    Code(
        UNKNOWN_ANNOTATION,
        "policy-unknown-annotation",
        "A policy has an annotation of tallygate.dev that nothing reads.",
        "It has no effect. The annotation with the reason that messages show is `tallygate.dev/why`.",
        "metadata: {name: a, annotations: {tallygate.dev/wy: bought for this team}}",
        "metadata: {name: a, annotations: {tallygate.dev/why: bought for this team}}",
    ),
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
