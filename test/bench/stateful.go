package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/pub"
	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
)

// fifth is what an update of StatefulSets may have unavailable.
const fifth = "20%"

// stateful measures an Advanced StatefulSet beside a native one, both Parallel, and prints what was found.
func (b *bench) stateful(ctx context.Context, out io.Writer) error {
	native, err := b.nativeStateful(ctx)
	if err != nil {
		return fmt.Errorf("native StatefulSet: %w", err)
	}
	ours, err := b.oursStateful(ctx)
	if err != nil {
		return fmt.Errorf("an Advanced StatefulSet: %w", err)
	}
	fmt.Fprintf(out, "\n%d Pods on %d simulated nodes, Parallel, maxUnavailable %s, one run\n\n", b.options.pods, b.options.nodes, fifth)
	w := table(out)
	compare(w, b.options, native, ours)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	statefulVerdicts(native, ours).print(out, "Advanced StatefulSets beside what is promised")
	return nil
}

// nativeStateful measures a StatefulSet under a controller manager that runs nothing else.
func (b *bench) nativeStateful(ctx context.Context) (*side, error) {
	const namespace, account = "bench-native-stateful", "native-statefulsets"
	s, err := b.begin(ctx, "StatefulSet", namespace)
	if err != nil {
		return nil, err
	}
	if err := b.startNative(ctx, s, account, "statefulset-controller"); err != nil {
		return nil, err
	}
	sets := b.cluster.Kube.AppsV1().StatefulSets(namespace)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(b.options.pods)), ServiceName: "web", PodManagementPolicy: appsv1.ParallelPodManagement,
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template(imageA),
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromString(fifth))}},
	}}
	err = b.phases(ctx, s, namespace, []phase{
		{phaseCreate, imageA, func(ctx context.Context) error {
			created, err := sets.Create(ctx, set, metav1.CreateOptions{})
			if err == nil && created.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
				err = errors.New("the cluster does not know maxUnavailable of StatefulSets: the comparison would not be fair")
			}
			return err
		}},
		{phaseRecreate, imageB, func(ctx context.Context) error {
			_, err := sets.Patch(ctx, "web", types.JSONPatchType, setImage(imageB), metav1.PatchOptions{})
			return err
		}},
	})
	if err != nil {
		return nil, err
	}
	if err := b.idle(ctx, s); err != nil {
		return nil, err
	}
	return s, b.end(ctx, s, namespace)
}

// oursStateful measures an Advanced StatefulSet with the same numbers.
func (b *bench) oursStateful(ctx context.Context) (*side, error) {
	const namespace = "bench-stateful"
	s, err := b.begin(ctx, "Advanced StatefulSet", namespace)
	if err != nil {
		return nil, err
	}
	phases := func(ctx context.Context) error { return b.phases(ctx, s, namespace, b.statefulPhases(namespace)) }
	if err := b.runOurs(ctx, s, "statefulset-controller", phases); err != nil {
		return nil, err
	}
	return s, b.end(ctx, s, namespace)
}

func (b *bench) statefulPhases(namespace string) []phase {
	sets := b.cluster.Flotilla.AppsV1beta1().StatefulSets(namespace)
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	set.Spec.Replicas = ptr.To(int32(b.options.pods))
	set.Spec.ServiceName, set.Spec.PodManagementPolicy = "web", v1beta1.ParallelPodManagement
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template = template(imageA)
	set.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: pub.InPlaceUpdateReady}}
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromString(fifth))}
	update := func(policy, image string) func(context.Context) error {
		return func(ctx context.Context) error {
			// Strategy and image are one write: a rollout begins with the strategy it is meant to have.
			patch := fmt.Sprintf(`[{"op":"add","path":"/spec/updateStrategy/rollingUpdate/podUpdatePolicy","value":%q},%s`, policy, setImage(image)[1:])
			_, err := sets.Patch(ctx, "web", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	return []phase{
		{phaseCreate, imageA, func(ctx context.Context) error {
			_, err := sets.Create(ctx, set, metav1.CreateOptions{})
			return err
		}},
		{phaseRecreate, imageB, update("ReCreate", imageB)},
		{phaseInPlace, imageC, update("InPlaceIfPossible", imageC)},
	}
}

// statefulVerdicts hold the figures against the promises: the floors of writes, and what the native kind takes.
func statefulVerdicts(native, ours *side) verdicts {
	var v verdicts
	for _, of := range []struct {
		phase  string
		writes float64
	}{{phaseCreate, 2}, {phaseRecreate, 3}, {phaseInPlace, 3}} {
		f := ours.phases[of.phase]
		v.most(of.phase, "writes to a Pod", f.writes.to("pods")/float64(f.pods), of.writes)
		v.most(of.phase, "conflicts (409)", float64(f.conflicts), 0)
		if n, ok := native.phases[of.phase]; ok {
			v.most(of.phase, "seconds, of the native one's", f.wall.Seconds()/n.wall.Seconds(), 1)
			v.most(of.phase, "CPU seconds, of the native one's", f.cpu.Seconds()/n.cpu.Seconds(), 1)
		}
	}
	v.most("idle", "writes", float64(ours.idleWrites.total()), 0)
	v.most("idle", "heap per Pod, KiB", ours.heapPerPod/1024, 6)
	return v
}

// to is the number of writes to a resource and its subresources.
func (w writes) to(resource string) float64 {
	n := 0
	for what, count := range w {
		_, target, _ := strings.Cut(what, " ")
		if target == resource || strings.HasPrefix(target, resource+"/") {
			n += count
		}
	}
	return float64(n)
}
