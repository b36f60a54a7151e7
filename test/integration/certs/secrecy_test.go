package certs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// keys are all private keys that were ever in the Secrets of the rotator since it was called, as DER.
func (l *lab) keys(ctx context.Context) (stop func() map[string][]byte) {
	l.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w, err := cluster.Kube.CoreV1().Secrets(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=cert-rotator"})
	require.NoError(l, err)
	found, done := map[string][]byte{}, make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			s, ok := e.Object.(*corev1.Secret)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			for name, data := range s.Data {
				if block, _ := pem.Decode(data); block != nil && bytes.Contains(data, []byte("PRIVATE KEY")) {
					found[fmt.Sprintf("%s/%s@%s", s.Name, name, s.ResourceVersion)] = block.Bytes
				}
			}
		}
	}()
	return func() map[string][]byte {
		cancel()
		<-done
		return found
	}
}

// tellsKey says whether a text has a good part of a key in any form that a program might write it in.
func tellsKey(text, der []byte) bool {
	file := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for _, raw := range [][]byte{der, file} {
		half := raw[len(raw)/3 : 2*len(raw)/3]
		forms := [][]byte{half, []byte(hex.EncodeToString(half))}
		for shift := range 3 {
			forms = append(forms, []byte(base64.StdEncoding.EncodeToString(half[shift:][:(len(half)-shift)/3*3])))
		}
		// A dump has sixteen bytes a line, wherever it begins.
		for shift := range 16 {
			line := half[shift:][:8]
			forms = append(forms, fmt.Appendf(nil, "% x", line))
		}
		for _, form := range forms {
			if bytes.Contains(text, form) {
				return true
			}
		}
	}
	return false
}

// TestScenario066_KeysAreInNoLogNoMetricAndNoFile looks at all that a rotator leaves behind which tells as much as it can.
func TestScenario066_KeysAreInNoLogNoMetricAndNoFile(t *testing.T) {
	l := newLab(t)
	l.configure()
	home, metrics := t.TempDir(), harness.FreeAddress(t)
	t.Setenv("TMPDIR", home)
	t.Setenv("HOME", home)
	stop := l.keys(t.Context())
	p := l.start(oneCRD, "--propagation-delay=0s", "--revoke-overlap=0s", "-v=7", "--metrics-bind-address="+metrics)
	l.trusted(true)
	for _, request := range []string{"renew-serving-after", "promote-after", "revoke-before"} {
		before, err := l.secret(t.Context(), tlsSecret)
		require.NoError(t, err)
		l.askLater(request)
		harness.Eventually(t, request, harness.Patience, func(ctx context.Context) error {
			after, err := l.secret(ctx, tlsSecret)
			if err == nil && bytes.Equal(before.Data["tls.crt"], after.Data["tls.crt"]) {
				err = errors.New("the serving pair is the one from before")
			}
			return err
		})
	}
	told, err := localcluster.Get(t.Context(), "http://"+metrics+"/metrics")
	require.NoError(t, err)
	texts := map[string][]byte{"the metrics": []byte(told)}
	add := func(path string) {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = raw
	}
	add(p.Log)
	require.NoError(t, filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			add(path)
		}
		return err
	}))
	keys := stop()
	// Two authorities at first, one more by the promotion and two by the revocation; a serving certificate each time.
	require.GreaterOrEqual(t, len(keys), 9, "keys were seen")
	require.NotEmpty(t, texts[p.Log])
	for which, key := range keys {
		require.True(t, tellsKey([]byte(hex.Dump(key)), key), "it would be found")
		for where, text := range texts {
			require.False(t, tellsKey(text, key), "%s has the key %s", where, which)
		}
	}
}

// askLater asks for what concerns all that there is now: requests name a time to the second, and count for what was made before.
func (l *lab) askLater(key string) {
	l.Helper()
	timer := time.NewTimer(1100 * time.Millisecond)
	<-timer.C
	l.ask(key)
}
