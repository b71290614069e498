// Command schedule runs the scheduler of Kubernetes 1.36, or with the tag kubernetes_1_37 or kubernetes_1_38 that of 1.37 or 1.38: each line on standard input is a case of tests/conformance
// (nodes, pods, objects, pod), and is written again with the answer of kube-scheduler under `result`, and under `choices`
// all nodes among which it chooses. Its code runs here over a fake client: no API server, nothing is bound or evicted.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

var versions = map[string]string{
	"Node": "v1", "Pod": "v1", "Namespace": "v1", "PersistentVolume": "v1", "PersistentVolumeClaim": "v1",
	"StorageClass": "storage.k8s.io/v1", "CSINode": "storage.k8s.io/v1", "CSIDriver": "storage.k8s.io/v1",
	"CSIStorageCapacity": "storage.k8s.io/v1", "VolumeAttachment": "storage.k8s.io/v1",
	"PodDisruptionBudget": "policy/v1", "PriorityClass": "scheduling.k8s.io/v1",
	"DeviceClass": "resource.k8s.io/v1", "ResourceClaim": "resource.k8s.io/v1", "ResourceClaimTemplate": "resource.k8s.io/v1",
	"ResourceSlice": "resource.k8s.io/v1", "DeviceTaintRule": "resource.k8s.io/v1",
}

// attempts is the number of attempts for a pod that gets a nomination. The scheduler walks through a map of its candidates and
// takes the first of equals: one of nine is missed by all attempts once in a hundred thousand times.
const attempts = 100

// placement is the part of a message that names the node on which a pod preempts, any of equal ones.
var placement = regexp.MustCompile(`found a potential placement for pod on node [^,]+,`)

type question struct {
	Nodes, Pods, Objects []map[string]any
	Pod                  map[string]any
}

// result is the outcome of one attempt; feasible is the number of feasible nodes.
type result struct {
	Scheduled bool   `json:"scheduled"`
	Node      string `json:"node"`
	Nominated string `json:"nominated"`
	Feasible  int    `json:"feasible"`
	Message   string `json:"message"`

	fitting []string
}

// choices contains the names of all feasible nodes, and of all nodes of which the scheduler nominates one, in order.
type choices struct {
	Nodes     []string `json:"nodes"`
	Nominated []string `json:"nominated"`
}

// recording is a framework that records the feasible nodes. The scheduler does not score a single feasible node.
type recording struct {
	framework.Framework
	fitting *[]string
}

func (r recording) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, p *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	for _, each := range nodes {
		*r.fitting = append(*r.fitting, each.Node().Name)
	}
	return r.Framework.RunPreScorePlugins(ctx, state, p, nodes)
}

// read keeps numbers as they were written.
func read(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// decode reads an object as the API server stores it; cases omit versions, uids, and kinds in lists.
func decode(thing map[string]any, kind string) (kruntime.Object, error) {
	if kind == "" {
		kind, _ = thing["kind"].(string)
	}
	thing["kind"], thing["apiVersion"] = kind, versions[kind]
	raw, err := json.Marshal(thing)
	if err != nil {
		return nil, err
	}
	obj, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(obj)
	meta := obj.(metav1.Object)
	if meta.GetUID() == "" && kind != "Pod" {
		meta.SetUID(types.UID("uid-" + kind + "-" + meta.GetNamespace() + "-" + meta.GetName()))
	}
	return obj, nil
}

func decodePod(thing map[string]any) (*corev1.Pod, error) {
	obj, err := decode(thing, "Pod")
	if err != nil {
		return nil, err
	}
	p := obj.(*corev1.Pod)
	if p.Namespace == "" {
		p.Namespace = corev1.NamespaceDefault
	}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	return p, nil
}

// stored is a new pod as the API server stores it; a pod with a uid is stored already. Priorities are as given.
func stored(p *corev1.Pod) (*corev1.Pod, error) {
	if p.UID != "" {
		return p, nil
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(p, schema.GroupVersion{Version: kruntime.APIVersionInternal})
	if err != nil {
		return nil, err
	}
	pod.Strategy.PrepareForCreate(genericapirequest.WithNamespace(genericapirequest.NewContext(), p.Namespace), internal)
	made, err := legacyscheme.Scheme.ConvertToVersion(internal, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	created := made.(*corev1.Pod)
	created.UID = "uid-new"
	created.Status.NominatedNodeName = p.Status.NominatedNodeName
	return created, nil
}

func objectsOf(q question) ([]kruntime.Object, error) {
	var objs []kruntime.Object
	for _, each := range q.Nodes {
		obj, err := decode(each, "Node")
		if err != nil {
			return nil, err
		}
		objs = append(objs, obj)
	}
	for _, each := range q.Objects {
		obj, err := decode(each, "")
		if err != nil {
			return nil, err
		}
		objs = append(objs, obj)
	}
	for i, each := range q.Pods {
		p, err := decodePod(each)
		if err != nil {
			return nil, err
		}
		if p.UID == "" {
			p.UID = types.UID(fmt.Sprint("uid-pod-", i))
		}
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed { // the fake client knows no field selectors
			objs = append(objs, p)
		}
	}
	return objs, nil
}

func ask(line []byte) (result, error) {
	var q question
	if err := read(line, &q); err != nil {
		return result{}, err
	}
	objs, err := objectsOf(q)
	if err != nil {
		return result{}, err
	}
	decoded, err := decodePod(q.Pod)
	if err != nil {
		return result{}, err
	}
	p, err := stored(decoded)
	if err != nil {
		return result{}, err
	}
	if len(p.Spec.SchedulingGates) > 0 {
		message := "Scheduling is blocked due to non-empty scheduling gates" // written by the API server, not by the scheduler
		return result{Nominated: p.Status.NominatedNodeName, Message: message}, nil
	}
	return attempt(append(objs, p), p)
}

// attempt gives a scheduler all objects and one pod, and records its decision.
func attempt(objs []kruntime.Object, p *corev1.Pod) (result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewSimpleClientset(objs...)
	factory := newInformerFactory(client)
	recorder := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	sched, err := scheduler.New(ctx, client, factory, nil, recorder)
	if err != nil {
		return result{}, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return result{}, err
	}
	said := result{Nominated: p.Status.NominatedNodeName}
	if !isQueued(sched, p) {
		return said, nil
	}
	onlyPod(sched, p)
	listen(sched, &said)
	sched.ScheduleOne(ctx)
	return said, nil
}

func isQueued(sched *scheduler.Scheduler, p *corev1.Pod) bool {
	for _, each := range sched.SchedulingQueue.PodsInActiveQ() {
		if each.UID == p.UID {
			return true
		}
	}
	return false
}

func listen(sched *scheduler.Scheduler, said *result) {
	schedule := sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState, queued *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		var fitting []string
		found, err := schedule(ctx, recording{f, &fitting}, state, queued)
		if err == nil {
			if found.FeasibleNodes == 1 {
				fitting = []string{found.SuggestedHost}
			}
			*said = result{Scheduled: true, Node: found.SuggestedHost, Feasible: found.FeasibleNodes, fitting: fitting}
			return found, errors.New("found, and not to be bound")
		}
		return found, err
	}
	sched.FailureHandler = func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, _ time.Time) {
		if said.Scheduled {
			return
		}
		said.Message = status.Message()
		if nominating.Mode() == fwk.ModeOverride {
			said.Nominated = nominating.NominatedNodeName
		}
	}
}

// choose repeats attempts until every choice of the scheduler has occurred.
func choose(line []byte) (result, choices, error) {
	said, err := ask(line)
	if err != nil {
		return said, choices{}, err
	}
	nominated := sets.New[string]()
	if said.Nominated != "" {
		nominated.Insert(said.Nominated)
		for range attempts - 1 {
			again, err := ask(line)
			if err != nil {
				return said, choices{}, err
			}
			if placement.ReplaceAllString(again.Message, "") != placement.ReplaceAllString(said.Message, "") || again.Nominated == "" {
				return said, choices{}, fmt.Errorf("two attempts differ: %+v, %+v", said, again)
			}
			nominated.Insert(again.Nominated)
		}
	}
	return said, choices{Nodes: sets.List(sets.New(said.fitting...)), Nominated: sets.List(nominated)}, nil
}

func answered(line []byte) ([]byte, error) {
	said, found, err := choose(line)
	if err != nil {
		return nil, err
	}
	if len(found.Nodes) != said.Feasible {
		return nil, fmt.Errorf("%d nodes fit, and these are named: %v", said.Feasible, found.Nodes)
	}
	var whole map[string]any
	if err := read(line, &whole); err != nil {
		return nil, err
	}
	whole["kubernetes"], whole["result"], whole["choices"] = minor, said, found
	return json.Marshal(whole)
}

func main() {
	klog.SetLogger(klog.Logger{}) // says nothing: an attempt that fails is an answer here
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<28)
	answers := make(chan chan []byte, 4*runtime.NumCPU()) // so many at a time: most of an attempt waits for informers
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		out := bufio.NewWriter(os.Stdout)
		defer out.Flush()
		for each := range answers {
			out.Write(append(<-each, '\n'))
		}
	}()
	for lines.Scan() {
		line, answer := append([]byte(nil), lines.Bytes()...), make(chan []byte, 1)
		answers <- answer
		go func() {
			said, err := answered(line)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			answer <- said
		}()
	}
	close(answers)
	done.Wait()
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
