package modelcluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flotilla-k8s/flotilla/internal/app"
	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// Object is what the model stores.
type Object interface {
	metav1.Object
	runtime.Object
}

// Kind describes a kind of owner to the model.
type Kind struct {
	// Resource is the plural name, such as clonesets.
	Resource string
	// New makes an empty owner, a pointer to a struct with the fields Spec and Status.
	New func() Object
	// MinReadySeconds is how long a Pod of the owner must be ready to be available.
	MinReadySeconds func(owner Object) int32
	// Build makes the controller anew, as a process does that starts. It panics if that fails.
	Build func(env *app.Env, alarm *Alarm) Built
}

// Built is a controller whose loop is the alarm that Build was given.
type Built struct {
	// Watched are the caches that the model fills. What else is stored shows in no cache.
	Watched []kube.Watched
	Sync    kube.Sync
}
