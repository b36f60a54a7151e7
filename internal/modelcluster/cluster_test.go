package modelcluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/kube"
	"github.com/flotilla-k8s/flotilla/internal/modelcluster"
)

// fixture has the clients of a controller that does nothing itself. Its caches show StorageClasses alone.
type fixture struct {
	*modelcluster.Fixture[*v1beta1.StatefulSet]
	env     *app.Env
	classes cache.SharedIndexInformer
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{}
	f.Fixture = modelcluster.NewFixture[*v1beta1.StatefulSet](t, modelcluster.Kind{
		Resource:        "statefulsets",
		New:             func() modelcluster.Object { return &v1beta1.StatefulSet{} },
		MinReadySeconds: func(modelcluster.Object) int32 { return 0 },
		Build: func(env *app.Env, _ *modelcluster.Alarm) modelcluster.Built {
			f.env = env
			f.classes = kubeinformers.NewSharedInformerFactory(env.Kube, 0).Storage().V1().StorageClasses().Informer()
			return modelcluster.Built{
				Watched: []kube.Watched{{
					Resource: storagev1.SchemeGroupVersion.WithResource(modelcluster.StorageClasses), Informer: f.classes,
					Transform: func(o any) (any, error) { return o, nil }, Handler: cache.ResourceEventHandlerFuncs{},
				}},
				Sync: func(context.Context, cache.ObjectName) (time.Duration, error) { return 0, nil },
			}
		},
	})
	f.Edit(func(*v1beta1.StatefulSet) {})
	return f
}

func (f *fixture) createPod(name string, images ...string) *corev1.Pod {
	f.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: modelcluster.OwnerUID, Controller: ptr.To(true)}}}}
	for i, image := range images {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name},
	}}}
	created, err := f.env.Kube.CoreV1().Pods(modelcluster.Namespace).Create(f.Context(), withNamespace(p), metav1.CreateOptions{})
	require.NoError(f, err)
	return created
}

func withNamespace[T metav1.Object](o T) T {
	o.SetNamespace(modelcluster.Namespace)
	return o
}

func (f *fixture) createClaim(name string, owners ...types.UID) {
	f.Helper()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, uid := range owners {
		c.OwnerReferences = append(c.OwnerReferences, metav1.OwnerReference{UID: uid})
	}
	_, err := f.env.Kube.CoreV1().PersistentVolumeClaims(modelcluster.Namespace).Create(f.Context(), withNamespace(c), metav1.CreateOptions{})
	require.NoError(f, err)
}

func (f *fixture) patchClaim(name, body string) error {
	_, err := f.env.Kube.CoreV1().PersistentVolumeClaims(modelcluster.Namespace).Patch(f.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

const (
	raise  = `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`
	shrink = `{"spec":{"resources":{"requests":{"storage":"500Mi"}}}}`
)

func TestAClaimGoesWithTheLastOfItsOwners(t *testing.T) {
	f := newFixture(t)
	p := f.createPod("web-0", "a")
	f.createClaim("data-web-0", p.UID)
	f.createClaim("both", modelcluster.OwnerUID, p.UID)
	f.createClaim("kept")
	f.Settle()
	f.DeletePod("web-0")
	f.Settle()
	require.Nil(t, f.Pod("web-0"))
	require.Nil(t, f.Claim("data-web-0"))
	require.Equal(t, []metav1.OwnerReference{{UID: modelcluster.OwnerUID}}, f.Claim("both").OwnerReferences)
	p = f.createPod("web-0", "a")
	f.createClaim("data-web-0", p.UID)
	f.Put(modelcluster.Revisions, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Name: "r", Namespace: modelcluster.Namespace, OwnerReferences: []metav1.OwnerReference{{UID: modelcluster.OwnerUID}},
	}})
	f.Delete("statefulsets", modelcluster.Namespace+"/"+modelcluster.Name)
	require.NotNil(t, f.Pod("web-0").DeletionTimestamp)
	require.Nil(t, f.Claim("both"))
	require.NotNil(t, f.Claim("data-web-0"), "its Pod is still there")
	require.Empty(t, f.Objects[modelcluster.Revisions])
	f.Settle()
	require.Nil(t, f.Claim("data-web-0"))
	require.NotNil(t, f.Claim("kept"))
}

func TestAClaimThatIsUsedIsDeletedAfterItsPod(t *testing.T) {
	f := newFixture(t)
	f.ProtectClaims = true
	f.createPod("web-0", "a")
	f.createClaim("data-web-0")
	f.Delete(modelcluster.Claims, modelcluster.Namespace+"/data-web-0")
	f.Settle()
	require.NotNil(t, f.Claim("data-web-0").DeletionTimestamp)
	f.DeletePod("web-0")
	f.Settle()
	require.Nil(t, f.Claim("data-web-0"))
}

func TestAClaimGrowsAsTheTestLikes(t *testing.T) {
	size := func(f *fixture) string { return f.Claim("data-web-0").Status.Capacity.Storage().String() }
	start := func(t *testing.T, e modelcluster.Expansion) *fixture {
		f := newFixture(t)
		f.Expansion = e
		f.createClaim("data-web-0")
		f.createPod("web-0", "a")
		f.Settle()
		require.Equal(t, corev1.ClaimBound, f.Claim("data-web-0").Status.Phase)
		require.Equal(t, "1Gi", size(f))
		require.NoError(t, f.patchClaim("data-web-0", raise))
		require.Equal(t, "1Gi", size(f))
		f.Settle()
		return f
	}
	require.Equal(t, "2Gi", size(start(t, modelcluster.ExpandAtOnce)))
	f := start(t, modelcluster.ExpandNever)
	require.Equal(t, "1Gi", size(f))
	f.Expansion = modelcluster.ExpandAtOnce
	f.Settle()
	require.Equal(t, "2Gi", size(f))
	f = start(t, modelcluster.ExpandAtStart)
	require.Equal(t, "1Gi", size(f))
	require.Equal(t, corev1.PersistentVolumeClaimFileSystemResizePending, f.Claim("data-web-0").Status.Conditions[0].Type)
	f.DeletePod("web-0")
	f.Settle()
	require.Equal(t, "1Gi", size(f))
	f.createPod("web-0", "a")
	f.Settle()
	require.Equal(t, "2Gi", size(f))
	require.Empty(t, f.Claim("data-web-0").Status.Conditions)
}

func TestWhatTheAPIServerRefusesOfClaims(t *testing.T) {
	f := newFixture(t)
	f.createClaim("data-web-0")
	require.True(t, apierrors.IsInvalid(f.patchClaim("data-web-0", shrink)))
	require.True(t, apierrors.IsInvalid(f.patchClaim("data-web-0", `{"spec":{"storageClassName":"fast"}}`)))
	require.NoError(t, f.patchClaim("data-web-0", `{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Lost"}}`))
	require.Equal(t, corev1.ClaimBound, f.Claim("data-web-0").Status.Phase, "the status is a subresource")
	f.EditClaim("data-web-0", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To("fast") })
	require.True(t, apierrors.IsForbidden(f.patchClaim("data-web-0", raise)))
	f.Put(modelcluster.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, AllowVolumeExpansion: ptr.To(true)})
	require.NoError(t, f.patchClaim("data-web-0", raise))
}

func TestAStorageClassIsReadThroughClientAndCache(t *testing.T) {
	f := newFixture(t)
	f.Put(modelcluster.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}})
	_, err := f.env.Kube.StorageV1().StorageClasses().Get(t.Context(), "fast", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, f.classes.GetStore().ListKeys())
	f.ShowAll()
	require.Equal(t, []string{"fast"}, f.classes.GetStore().ListKeys())
}

func TestImagesThatDoNotWork(t *testing.T) {
	for image, want := range map[string]struct {
		phase  corev1.PodPhase
		reason string
		ready  bool
	}{
		"a":                  {corev1.PodRunning, "", true},
		modelcluster.Unready: {corev1.PodRunning, "", false},
		modelcluster.Broken:  {corev1.PodPending, "ImagePullBackOff", false},
		modelcluster.Crashes: {corev1.PodRunning, "CrashLoopBackOff", false},
	} {
		t.Run(image, func(t *testing.T) {
			f := newFixture(t)
			f.createPod("web-0", "a", image)
			f.Settle()
			check := func(phase corev1.PodPhase, ready bool, reason string) {
				p := f.Pod("web-0")
				require.Equal(t, phase, p.Status.Phase)
				require.Equal(t, ready, f.Available() == 1)
				require.Len(t, p.Status.ContainerStatuses, 2)
				if waiting := p.Status.ContainerStatuses[1].State.Waiting; waiting != nil {
					require.Equal(t, reason, waiting.Reason)
				} else {
					require.Empty(t, reason)
				}
			}
			check(want.phase, want.ready, want.reason)
			// Repaired in place, and spoiled again: what ran once does not make the Pod Pending.
			setImage := func(image string) {
				f.EditPod("web-0", func(p *corev1.Pod) { p.Spec.Containers[1].Image = image })
				f.Settle()
			}
			setImage("b")
			check(corev1.PodRunning, true, "")
			require.Equal(t, "sha256:b", f.Pod("web-0").Status.ContainerStatuses[1].ImageID)
			setImage(image)
			check(corev1.PodRunning, want.ready, want.reason)
		})
	}
}

func TestAPodIsGoneWhenItsKubeletSaysSo(t *testing.T) {
	f := newFixture(t)
	p := f.createPod("web-0", "a")
	pods := f.env.Kube.CoreV1().Pods(modelcluster.Namespace)
	require.True(t, apierrors.IsConflict(pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("x"))}})))
	f.EditPod("web-0", func(p *corev1.Pod) { p.Finalizers = []string{"hold/on"} })
	require.NoError(t, pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}))
	f.Settle()
	_, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
	require.True(t, apierrors.IsAlreadyExists(err))
	f.EditPod("web-0", func(p *corev1.Pod) { p.Finalizers = nil })
	f.Settle()
	_, err = pods.Create(t.Context(), p, metav1.CreateOptions{})
	require.NoError(t, err)
}

func TestAPatchOfAnOwnersStatusChangesNothingElse(t *testing.T) {
	f := newFixture(t)
	sets := f.env.Flotilla.AppsV1beta1().StatefulSets(modelcluster.Namespace)
	patch := func(body string) error {
		_, err := sets.Patch(t.Context(), modelcluster.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, "status")
		return err
	}
	require.NoError(t, patch(`{"status":{"replicas":3,"collisionCount":1,"conditions":[{"type":"Ready","status":"True","reason":"x"}]},"spec":{"replicas":9}}`))
	require.NoError(t, patch(`{"status":{"replicas":null,"collisionCount":null,"readyReplicas":2}}`))
	require.Nil(t, f.Set().Spec.Replicas)
	require.Zero(t, f.Set().Status.Replicas)
	require.Nil(t, f.Set().Status.CollisionCount)
	require.EqualValues(t, 2, f.Set().Status.ReadyReplicas)
	require.Len(t, f.Set().Status.Conditions, 1)
	require.NoError(t, patch(`{"status":{"conditions":[{"type":"Stalled","status":"True"}]}}`))
	require.Equal(t, []v1beta1.StatefulSetCondition{{Type: "Stalled", Status: "True"}}, f.Set().Status.Conditions)
	require.True(t, apierrors.IsConflict(patch(`{"metadata":{"uid":"x"},"status":{"replicas":1}}`)))
	generation := f.Set().Generation
	_, err := sets.Patch(t.Context(), modelcluster.Name, types.MergePatchType, []byte(`{"spec":{"replicas":4},"status":{"replicas":7}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 4, *f.Set().Spec.Replicas)
	require.Zero(t, f.Set().Status.Replicas)
	require.Equal(t, generation+1, f.Set().Generation)
}
