// Command created runs code of Kubernetes 1.37, or of 1.38 by another file of requirements: each line on standard input has a pod, the LimitRanges and ResourceQuotas of
// its namespace, the classes of its cluster, and a number of copies, and is written again with what an API server does to
// them under `answer`: LimitRanger, the default PriorityClass and the RuntimeClass complete the pod, validation and admission
// may reject it, and the quotas admit some of the copies.
package main

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	quotaadmission "k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	apiv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/utils/clock"

	"tallygate.dev/oracle/lines"
)

const namespace = "default"

type question struct {
	Pod             json.RawMessage   `json:"pod"`
	LimitRanges     []json.RawMessage `json:"limitRanges"`
	Quotas          []json.RawMessage `json:"quotas"`
	PriorityClasses []json.RawMessage `json:"priorityClasses"`
	RuntimeClasses  []json.RawMessage `json:"runtimeClasses"`
	Copies          int               `json:"copies"`
}

type answer struct {
	question
	Kubernetes string         `json:"kubernetes"`
	Answer     map[string]any `json:"answer"`
}

type plugin interface {
	SetExternalKubeInformerFactory(informers.SharedInformerFactory)
	admission.MutationInterface
	admission.ValidationInterface
}

func decode[Object any](content json.RawMessage) *Object {
	object := new(Object)
	if err := json.Unmarshal(content, object); err != nil {
		panic(err)
	}
	if typed, ok := any(object).(runtime.Object); ok {
		legacyscheme.Scheme.Default(typed)
	}
	return object
}

func rejection(by string, err error) map[string]any {
	return map[string]any{"by": by, "message": err.Error()}
}

// isStored tells whether an API server stores a LimitRange or quota.
func isStored(ctx context.Context, decoded runtime.Object, strategy interface {
	Validate(context.Context, runtime.Object) field.ErrorList
}) bool {
	internal, err := legacyscheme.Scheme.ConvertToVersion(decoded, schema.GroupVersion{Version: runtime.APIVersionInternal})
	if err != nil {
		panic(err)
	}
	return len(strategy.Validate(ctx, internal)) == 0
}

func create(asked question) any {
	written := new(corev1.Pod)
	if json.Unmarshal(asked.Pod, written) != nil {
		return nil
	}
	legacyscheme.Scheme.Default(written)
	written.Namespace = namespace
	object := new(api.Pod)
	if err := apiv1.Convert_v1_Pod_To_core_Pod(written, object, nil); err != nil {
		panic(err)
	}
	ctx := genericapirequest.WithNamespace(genericapirequest.NewContext(), namespace)
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	ranges := factory.Core().V1().LimitRanges().Informer().GetStore()
	for _, each := range asked.LimitRanges {
		decoded := decode[corev1.LimitRange](each)
		decoded.Namespace = namespace
		if !isStored(ctx, decoded, limitrange.Strategy) {
			return nil
		}
		ranges.Add(decoded)
	}
	for _, each := range asked.PriorityClasses {
		factory.Scheduling().V1().PriorityClasses().Informer().GetStore().Add(decode[schedulingv1.PriorityClass](each))
	}
	for _, each := range asked.RuntimeClasses {
		factory.Node().V1().RuntimeClasses().Informer().GetStore().Add(decode[nodev1.RuntimeClass](each))
	}
	quotas := []corev1.ResourceQuota{}
	for _, each := range asked.Quotas {
		decoded := decode[corev1.ResourceQuota](each)
		decoded.Namespace = namespace
		if !isStored(ctx, decoded, resourcequota.Strategy) {
			return nil
		}
		quotas = append(quotas, *decoded)
	}
	rangePlugin, err := limitranger.NewLimitRanger(nil)
	if err != nil {
		panic(err)
	}
	rangePlugin.SetExternalKubeClientSet(client)
	priorityPlugin, classPlugin := priority.NewPlugin(), runtimeclass.NewRuntimeClass()
	priorityPlugin.SetExternalKubeClientSet(client)
	classPlugin.SetExternalKubeClientSet(client)
	for _, each := range []plugin{rangePlugin, priorityPlugin, classPlugin} {
		each.SetExternalKubeInformerFactory(factory)
	}
	attributes := admission.NewAttributesRecord(
		object, nil, api.Kind("Pod").WithVersion("v1"), namespace, written.Name, api.Resource("pods").WithVersion("v1"), "",
		admission.Create, &metav1.CreateOptions{}, false, nil,
	)
	return answer{asked, lines.Version("k8s.io/kubernetes"), admit(ctx, attributes, object, []plugin{rangePlugin, priorityPlugin, classPlugin}, quotas, asked.Copies)}
}

func admit(
	ctx context.Context, attributes admission.Attributes, object *api.Pod, plugins []plugin, quotas []corev1.ResourceQuota, copies int,
) map[string]any {
	names := []string{"LimitRanger", "Priority", "RuntimeClass"}
	for index, each := range plugins {
		if err := each.Admit(ctx, attributes, nil); err != nil {
			return map[string]any{"rejection": rejection(names[index], err)}
		}
	}
	pod.Strategy.PrepareForCreate(ctx, object)
	if errs := pod.Strategy.Validate(ctx, object); len(errs) > 0 {
		return map[string]any{"rejection": rejection("validation", errs.ToAggregate())}
	}
	for index, each := range plugins {
		if err := each.Validate(ctx, attributes, nil); err != nil {
			return map[string]any{"rejection": rejection(names[index], err)}
		}
	}
	stored := new(corev1.Pod)
	if err := apiv1.Convert_core_Pod_To_v1_Pod(object, stored, nil); err != nil {
		panic(err)
	}
	result := map[string]any{"spec": summary(stored)}
	evaluator := quotacore.NewPodEvaluator(nil, clock.RealClock{})
	admitted := 0
	for ; admitted < copies; admitted++ {
		charged, err := quotaadmission.CheckRequest(quotas, attributes, evaluator, nil)
		if err != nil {
			result["rejection"] = rejection("ResourceQuota", err)
			break
		}
		quotas = charged
	}
	result["admitted"] = admitted
	return result
}

// summary has what the plugins may complete in a pod.
func summary(stored *corev1.Pod) map[string]any {
	of := func(containers []corev1.Container) []corev1.ResourceRequirements {
		listed := []corev1.ResourceRequirements{}
		for _, each := range containers {
			listed = append(listed, each.Resources)
		}
		return listed
	}
	return map[string]any{
		"containers": of(stored.Spec.Containers), "initContainers": of(stored.Spec.InitContainers),
		"resources": stored.Spec.Resources, "overhead": stored.Spec.Overhead, "qos": stored.Status.QOSClass,
		"priorityClassName": stored.Spec.PriorityClassName,
		"annotation":        strings.TrimSpace(stored.Annotations["kubernetes.io/limit-ranger"]),
	}
}

func main() {
	lines.Answer(create)
}
