package app

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/flotilla-k8s/flotilla/internal/kube"
)

// notCreated is what client-go logs at every attempt to create a lease. What keeps it from being created is told once by
// lease, with what to do.
const notCreated = "Error initially creating lease lock"

// lease is the lock of the leader.
type lease struct {
	resourcelock.Interface
	log       logr.Logger
	namespace string

	mu   sync.Mutex
	told string
}

// Create creates the lease.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if ctx.Err() == nil {
		l.tell(err)
	}
	return err //nolint:wrapcheck // It is the lock's own.
}

func (l *lease) tell(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.told = ""
	case apierrors.IsAlreadyExists(err), kube.IsLost(err), err.Error() == l.told:
	case apierrors.IsNotFound(err):
		l.told = err.Error()
		l.log.Error(err, fmt.Sprintf("the namespace of the lease is missing, and nothing is done without the lease: "+
			"run kubectl create namespace %s, or name another by --leader-elect-namespace, or work without by --leader-elect=false", l.namespace))
	default:
		l.told = err.Error()
		l.log.Error(err, "the lease cannot be created, and nothing is done without it; trying again", "lease", l.Describe())
	}
}
