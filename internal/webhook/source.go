package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// offered is what a source has: a pair, or why it cannot be had. The version is another one whenever the rest is.
type offered struct {
	data    map[string][]byte
	version string
	err     error
}

// fromSecret watches a Secret. Its deletion is no offer: what was loaded goes on being served. What was not taken is offered again and
// again: a clock that was wrong may have been set since.
func fromSecret(env *app.Env, reference string, take func(offered) bool) (start func(context.Context), err error) {
	namespace, name, _ := strings.Cut(reference, "/")
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(env.Kube, 0, kubeinformers.WithNamespace(namespace),
		kubeinformers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	secrets := factory.Core().V1().Secrets().Informer()
	var mu sync.Mutex
	var refused *offered
	// An offer is never taken after one that came later.
	try := func(o *offered) {
		if refused = o; o != nil && take(*o) {
			refused = nil
		}
	}
	offer := func(o any) {
		if s, ok := o.(*corev1.Secret); ok {
			mu.Lock()
			defer mu.Unlock()
			try(&offered{data: s.Data, version: s.ResourceVersion})
		}
	}
	again := func() {
		mu.Lock()
		defer mu.Unlock()
		try(refused)
	}
	_, err = secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: offer, UpdateFunc: func(_, o any) { offer(o) }})
	if err = errors.Join(err, secrets.SetWatchErrorHandlerWithContext(env.WatchFailed)); err != nil {
		return nil, fmt.Errorf("setting up the informer: %w", err)
	}
	return func(ctx context.Context) {
		factory.StartWithContext(ctx)
		go every(ctx, env.Clock, pollAgain, again)
	}, nil
}

func every(ctx context.Context, clock clock.WithTicker, period time.Duration, do func()) {
	ticker := clock.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			do()
		}
	}
}

const (
	// pollFiles is how often files are read.
	pollFiles = 10 * time.Second
	// pollAgain is how soon after an offer that was not taken: files may have been replaced between two reads.
	pollAgain = time.Second
)

// fromFiles reads a pair again and again. Volumes are replaced as a whole, through a link, which events of single files do
// not tell reliably.
func fromFiles(ctx context.Context, clock clock.Clock, certificate, key string, take func(offered) bool) {
	taken := ""
	for {
		wait := pollFiles
		if o := readFiles(certificate, key); o.version != taken {
			if take(o) {
				taken = o.version
			} else {
				wait = pollAgain
			}
		}
		timer := clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// readFiles reads a pair, and the issuer that lies beside the certificate if there is one.
func readFiles(certificate, key string) offered {
	data := map[string][]byte{}
	for name, path := range map[string]string{
		corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key, issuerKey: filepath.Join(filepath.Dir(certificate), issuerKey),
	} {
		raw, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == issuerKey:
		case err != nil:
			return offered{version: err.Error(), err: fmt.Errorf("reading the pair: %w", err)}
		default:
			data[name] = raw
		}
	}
	sum := sha256.Sum256(bytes.Join([][]byte{data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[issuerKey]}, []byte{0}))
	return offered{data: data, version: hex.EncodeToString(sum[:8])}
}
