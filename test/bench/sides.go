package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

type bench struct {
	cluster *localcluster.Cluster
	audit   string
	options options
	// start is where in the audit log the present side began.
	start int64
}

const (
	imageA  = "registry.example/web:a"
	imageB  = "registry.example/web:b"
	imageC  = "registry.example/web:c"
	quarter = "25%"
)

func (b *bench) begin(ctx context.Context, name, namespace string) (*side, error) {
	var err error
	if b.start, err = auditSize(b.audit); err != nil {
		return nil, err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := b.cluster.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	fmt.Fprintf(os.Stderr, "Measuring %s, %d Pods\n", name, b.options.pods)
	return &side{name: name, phases: map[string]figures{}}, nil
}

// end removes the side's Pods, so that the other one starts on an empty cluster, and its process.
func (b *bench) end(ctx context.Context, s *side, namespace string) error {
	if err := b.empty(ctx, namespace); err != nil {
		return err
	}
	return stop(s)
}

func stop(s *side) error {
	if err := s.process.Stop(30 * time.Second); err != nil {
		return fmt.Errorf("stopping the process of %s: %w", s.name, err)
	}
	return nil
}

// empty removes a namespace; one that goes takes its workloads with it.
func (b *bench) empty(ctx context.Context, namespace string) error {
	if err := b.cluster.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", namespace, err)
	}
	return localcluster.Await(ctx, within, func(ctx context.Context) error {
		pods, err := b.cluster.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("some Pods are left in %s", namespace)
		}
		return err
	})
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To(int64(0)), Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
}

func setImage(image string) []byte {
	return fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
}

// native measures a Deployment under a controller manager that runs nothing else.
func (b *bench) native(ctx context.Context) (*side, error) {
	const namespace, account = "bench-native", "native-controllers"
	s, err := b.begin(ctx, "Deployment", namespace)
	if err != nil {
		return nil, err
	}
	if err := b.startNative(ctx, s, account, "deployment-controller,replicaset-controller"); err != nil {
		return nil, err
	}
	deployments := b.cluster.Kube.AppsV1().Deployments(namespace)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	d.Spec.Replicas = ptr.To(int32(b.options.pods))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template = template(imageA)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromString(quarter)), MaxSurge: ptr.To(intstr.FromString(quarter))}
	err = b.phases(ctx, s, namespace, []phase{
		{phaseCreate, imageA, func(ctx context.Context) error {
			_, err := deployments.Create(ctx, d, metav1.CreateOptions{})
			return err
		}},
		{phaseRecreate, imageB, func(ctx context.Context) error {
			_, err := deployments.Patch(ctx, "web", types.JSONPatchType, setImage(imageB), metav1.PatchOptions{})
			return err
		}},
	})
	if err != nil {
		return nil, err
	}
	if err := b.idle(ctx, s); err != nil {
		return nil, err
	}
	if err := b.replacements(ctx, s, namespace); err != nil {
		return nil, err
	}
	return s, b.end(ctx, s, namespace)
}

// startNative runs a controller manager with some of its controllers alone for a side.
func (b *bench) startNative(ctx context.Context, s *side, account, controllers string) error {
	s.user = account
	if err := b.nativeAccount(ctx, account); err != nil {
		return err
	}
	kubeconfig, err := b.cluster.KubeconfigFor(ctx, account, b.cluster.Scratch())
	if err != nil {
		return err
	}
	s.process, err = b.cluster.StartFile(filepath.Join(b.cluster.Dir, "bin", "kube-controller-manager"), b.cluster.Scratch(),
		"--kubeconfig", kubeconfig, "--controllers="+controllers, "--leader-elect=false",
		"--secure-port=0", "--kube-api-qps=5000", "--kube-api-burst=5000")
	return err
}

// nativeAccount may do anything: what the native controllers need is not what is measured.
func (b *bench) nativeAccount(ctx context.Context, name string) error {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := b.cluster.Kube.CoreV1().ServiceAccounts("flotilla-system").Create(ctx, sa, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating ServiceAccount %s: %w", name, err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "flotilla-system"}}}
	if _, err := b.cluster.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("binding ServiceAccount %s: %w", name, err)
	}
	return nil
}

// ours measures a CloneSet with the same numbers.
func (b *bench) ours(ctx context.Context) (*side, error) {
	const namespace = "bench-cloneset"
	s, err := b.begin(ctx, "CloneSet", namespace)
	if err != nil {
		return nil, err
	}
	phases := func(ctx context.Context) error { return b.clonesetPhases(ctx, s, namespace) }
	if err := b.runOurs(ctx, s, "cloneset-controller", phases); err != nil {
		return nil, err
	}
	if err := b.replacements(ctx, s, namespace); err != nil {
		return nil, err
	}
	if err := b.empty(ctx, namespace); err != nil {
		return nil, err
	}
	if err := b.wide(ctx, s); err != nil {
		return nil, err
	}
	if err := b.fleet(ctx, s); err != nil {
		return nil, err
	}
	return s, stop(s)
}

// runOurs starts a controller of ours, has it go through the phases and rest, and takes what it holds in memory by then.
func (b *bench) runOurs(ctx context.Context, s *side, component string, phases func(context.Context) error) error {
	pprof, err := b.startOurs(ctx, s, component)
	if err != nil {
		return err
	}
	empty, err := heap(ctx, pprof)
	if err != nil {
		return err
	}
	if err := phases(ctx); err != nil {
		return err
	}
	if err := b.idle(ctx, s); err != nil {
		return err
	}
	full, err := heap(ctx, pprof)
	s.heapPerPod = float64(full-empty) / float64(b.options.pods)
	return err
}

func (b *bench) clonesetPhases(ctx context.Context, s *side, namespace string) error {
	sets := b.cluster.Flotilla.AppsV1beta1().CloneSets(namespace)
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	set.Spec.Replicas = ptr.To(int32(b.options.pods))
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template = template(imageA)
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{
		MaxUnavailable: ptr.To(intstr.FromString(quarter)), MaxSurge: ptr.To(intstr.FromString(quarter)),
	}
	update := func(policy, image string) func(context.Context) error {
		return func(ctx context.Context) error {
			surge := quarter
			if policy == "InPlaceIfPossible" {
				surge = "0%"
			}
			// Strategy and image are one write: a rollout begins with the strategy it is meant to have.
			patch := fmt.Sprintf(`{"spec":{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":%q,"maxSurge":%q}},"template":{"spec":{"containers":[{"name":"main","image":%q}],"terminationGracePeriodSeconds":0}}}}`, policy, surge, image)
			_, err := sets.Patch(ctx, "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	return b.phases(ctx, s, namespace, []phase{
		{phaseCreate, imageA, func(ctx context.Context) error {
			_, err := sets.Create(ctx, set, metav1.CreateOptions{})
			return err
		}},
		{phaseInPlace, imageB, update("InPlaceIfPossible", imageB)},
		{phaseRecreate, imageC, update("ReCreate", imageC)},
	})
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heap is what the process holds after a collection, in bytes.
func heap(ctx context.Context, pprof string) (bytes int64, err error) {
	err = localcluster.Await(ctx, time.Minute, func(ctx context.Context) error {
		text, err := localcluster.Get(ctx, "http://"+pprof+"/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			return err
		}
		m := heapAlloc.FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("%s has no HeapAlloc", pprof)
		}
		bytes, err = strconv.ParseInt(m[1], 10, 64)
		return err
	})
	return bytes, err
}

// phase is one change of a workload, and the image that its Pods have at the end.
type phase struct {
	name, image string
	do          func(context.Context) error
}

func (b *bench) phases(ctx context.Context, s *side, namespace string, list []phase) error {
	for _, p := range list {
		if err := b.measure(ctx, s, namespace, p.name, p.do, b.options.pods, allReady(b.options.pods, p.image)); err != nil {
			return err
		}
	}
	return nil
}

// startOurs runs a controller of ours for a side, and returns where its profiles are.
func (b *bench) startOurs(ctx context.Context, s *side, component string) (pprof string, err error) {
	s.user = component
	kubeconfig, err := b.cluster.KubeconfigFor(ctx, component, b.cluster.Scratch())
	if err != nil {
		return "", err
	}
	if pprof, err = localcluster.FreeAddress(); err != nil {
		return "", err
	}
	s.process, err = b.cluster.Start(component, b.cluster.Scratch(), "--kubeconfig", kubeconfig, "--leader-elect=false",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--pprof-bind-address="+pprof)
	return pprof, err
}
