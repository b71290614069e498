// Command names answers lines {"name": N} with the results of Kubernetes' own code for a resource name: its predicates,
// and the details of its errors in each context.
package main

import (
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"tallygate.dev/oracle/lines"
)

type question struct {
	Name string `json:"name"`
}

type line struct {
	question
	Answer map[string]any `json:"answer"`
}

func details(errors field.ErrorList) []string {
	said := []string{}
	for _, each := range errors {
		said = append(said, each.Detail)
	}
	return said
}

// limitRange validates a name in a LimitRange of one type.
func limitRange(name string, kind core.LimitType) []string {
	entry := core.LimitRangeItem{Type: kind, Max: core.ResourceList{core.ResourceName(name): resource.MustParse("1")}}
	if kind == core.LimitTypePersistentVolumeClaim {
		entry.Min = core.ResourceList{core.ResourceStorage: resource.MustParse("1")}
	}
	said := field.ErrorList{}
	object := &core.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "n"},
		Spec:       core.LimitRangeSpec{Limits: []core.LimitRangeItem{entry}},
	}
	for _, each := range validation.ValidateLimitRange(object) {
		if strings.HasPrefix(each.Field, "spec.limits[0].max") {
			said = append(said, each)
		}
	}
	return details(said)
}

func answer(name string) map[string]any {
	n, v := core.ResourceName(name), corev1.ResourceName(name)
	qualified := utilvalidation.IsQualifiedName(name)
	if qualified == nil {
		qualified = []string{}
	}
	is := map[string]bool{
		"native":             helper.IsNativeResource(n),
		"extended":           helper.IsExtendedResourceName(n),
		"integer":            helper.IsIntegerResourceName(n),
		"hugepage":           helper.IsHugePageResourceName(n),
		"overcommit_allowed": helper.IsOvercommitAllowed(n),
		"prefixed_native":    v1helper.IsPrefixedNativeResource(v),
		"scheduler_scalar":   schedutil.IsScalarResourceName(v),
	}
	held := []string{}
	for each, holds := range is {
		if holds {
			held = append(held, each)
		}
	}
	sort.Strings(held)
	return map[string]any{
		"qualified":         qualified,
		"is":                held,
		"container":         limitRange(name, core.LimitTypeContainer),
		"limit-range-other": limitRange(name, core.LimitTypePersistentVolumeClaim),
		"quota":             details(validation.ValidateResourceQuotaResourceName(n, field.NewPath("x"))),
	}
}

func main() {
	lines.Answer(func(q question) any { return line{q, answer(q.Name)} })
}
