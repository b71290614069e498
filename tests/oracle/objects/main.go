// Command objects runs code of Kubernetes 1.36: each line on standard input is a case of tests/conformance (a pod, a node, a
// quota, any object, or a pod with a node and the pods on it), and is written again with the answer of Kubernetes' own
// decoding, defaulting, validation, sums, quota evaluator and scheduler filter.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	testclock "k8s.io/utils/clock/testing"
)

type validator interface {
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
}

var strategies = map[string]validator{
	"Pod": pod.Strategy, "PodTemplate": podtemplate.Strategy, "Deployment": deployment.Strategy, "ReplicaSet": replicaset.Strategy,
	"StatefulSet": statefulset.Strategy, "DaemonSet": daemonset.Strategy, "Job": job.Strategy, "CronJob": cronjob.Strategy,
	"ReplicationController": replicationcontroller.Strategy, "LimitRange": limitrange.Strategy, "ResourceQuota": resourcequota.Strategy,
	"Node": node.Strategy,
}

var decoder = legacyscheme.Codecs.UniversalDeserializer()

func decode(raw json.RawMessage) (runtime.Object, schema.GroupVersionKind, error) {
	obj, gvk, err := decoder.Decode(raw, nil, nil)
	if err != nil {
		return nil, schema.GroupVersionKind{}, err
	}
	legacyscheme.Scheme.Default(obj)
	return obj, *gvk, nil
}

func errorsOf(obj runtime.Object, gvk schema.GroupVersionKind) (field.ErrorList, error) {
	internal, err := legacyscheme.Scheme.ConvertToVersion(obj, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, err
	}
	ctx := genericapirequest.WithNamespace(genericapirequest.NewContext(), "default")
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{APIGroup: gvk.Group, APIVersion: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"})
	return strategies[gvk.Kind].Validate(ctx, internal), nil
}

func listed(errs field.ErrorList) []map[string]string {
	out := []map[string]string{}
	for _, e := range errs {
		out = append(out, map[string]string{"field": e.Field, "type": string(e.Type), "detail": e.Detail, "message": e.ErrorBody()})
	}
	return out
}

func causes(errs field.ErrorList) []map[string]string {
	out := []map[string]string{}
	for _, e := range errs {
		out = append(out, map[string]string{"field": e.Field, "reason": string(e.Type), "message": e.ErrorBody()})
	}
	return out
}

func texts(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for k, v := range list {
		out[string(k)] = v.String()
	}
	return out
}

func podCase(in map[string]json.RawMessage) (map[string]any, error) {
	obj, gvk, err := decode(in["pod"])
	if err != nil {
		return map[string]any{"decode": err.Error()}, nil
	}
	errs, err := errorsOf(obj, gvk)
	if err != nil {
		return nil, err
	}
	p := obj.(*corev1.Pod)
	opts := resourcehelper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if raw, ok := in["now"]; ok {
		var s string
		json.Unmarshal(raw, &s)
		now, err = time.Parse(time.RFC3339, s)
		if err != nil {
			return nil, err
		}
	}
	answer := map[string]any{
		"errors":   listed(errs),
		"requests": texts(resourcehelper.PodRequests(p.DeepCopy(), opts)),
		"limits":   texts(resourcehelper.PodLimits(p.DeepCopy(), opts)),
		"qos":      string(qos.ComputePodQOS(p.DeepCopy())),
	}
	usage, err := quotacore.PodUsageFunc(p.DeepCopy(), testclock.NewFakeClock(now))
	if err != nil {
		return nil, err
	}
	answer["quota"] = texts(usage)
	return answer, nil
}

func fitCase(in map[string]json.RawMessage) (map[string]any, error) {
	obj, _, err := decode(in["pod"])
	if err != nil {
		return nil, err
	}
	nobj, _, err := decode(in["node"])
	if err != nil {
		return nil, err
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(in["pods"], &raws); err != nil {
		return nil, err
	}
	info := framework.NewNodeInfo()
	for _, raw := range raws {
		o, _, err := decode(raw)
		if err != nil {
			return nil, err
		}
		info.AddPod(o.(*corev1.Pod))
	}
	info.SetNode(nobj.(*corev1.Node))
	out := []map[string]any{}
	for _, r := range noderesources.Fits(obj.(*corev1.Pod), info, nil, noderesources.ResourceRequestsOptions{EnablePodLevelResources: true, EnableDRAExtendedResource: true}) {
		out = append(out, map[string]any{"resource": string(r.ResourceName), "reason": r.Reason, "requested": fmt.Sprint(r.Requested), "used": fmt.Sprint(r.Used), "capacity": fmt.Sprint(r.Capacity), "never": r.Unresolvable})
	}
	return map[string]any{"insufficient": out}, nil
}

func answer(in map[string]json.RawMessage) error {
	var a map[string]any
	var err error
	if _, ok := in["object"]; ok {
		obj, gvk, derr := decode(in["object"])
		if derr != nil {
			in["decode"], _ = json.Marshal(derr.Error())
			return nil
		}
		errs, verr := errorsOf(obj, gvk)
		if verr != nil {
			return verr
		}
		in["causes"], err = json.Marshal(causes(errs))
		return err
	}
	if _, ok := in["pods"]; ok {
		a, err = fitCase(in)
	} else if _, ok := in["pod"]; ok {
		a, err = podCase(in)
	} else {
		raw := in["node"]
		if raw == nil {
			raw = in["quota"]
		}
		obj, gvk, derr := decode(raw)
		if derr != nil {
			a = map[string]any{"decode": derr.Error()}
		} else {
			errs, verr := errorsOf(obj, gvk)
			if verr != nil {
				return verr
			}
			a = map[string]any{"errors": listed(errs)}
		}
	}
	if err != nil {
		return err
	}
	in["answer"], err = json.Marshal(a)
	return err
}

func main() {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), 1<<26)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for scanner.Scan() {
		in := map[string]json.RawMessage{}
		if err := json.Unmarshal(scanner.Bytes(), &in); err != nil {
			fmt.Fprintln(os.Stderr, "bad line", err)
			continue
		}
		if err := answer(in); err != nil {
			fmt.Fprintln(os.Stderr, "error", err)
			continue
		}
		b, _ := json.Marshal(in)
		w.Write(b)
		w.WriteByte('\n')
	}
}
