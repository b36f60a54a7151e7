package certs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// mark is a moment, and where the API server's audit log ended then. A write can be seen before it is in the log.
type mark struct {
	offset int64
	begin  time.Time
}

func (l *lab) mark() mark {
	l.Helper()
	info, err := os.Stat(filepath.Join(cluster.Dir, "audit.log"))
	require.NoError(l, err)
	return mark{offset: info.Size(), begin: time.Now()}
}

// written are the rotator's writes that were asked for since a mark, carried out and logged by now, in their order: "patch
// secrets/name". Leases and events are not part of the work and are left out.
func (l *lab) written(since mark) []string {
	l.Helper()
	f, err := os.Open(filepath.Join(cluster.Dir, "audit.log"))
	require.NoError(l, err)
	defer f.Close()
	_, err = f.Seek(since.offset, io.SeekStart)
	require.NoError(l, err)
	out := []string{}
	for r := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return out
		}
		require.NoError(l, err)
		var e struct {
			Verb                     string
			RequestReceivedTimestamp metav1.MicroTime
			User                     struct{ Username string }
			ObjectRef                struct{ Resource, Name string }
			ResponseStatus           struct{ Code int }
		}
		require.NoError(l, json.Unmarshal(line, &e))
		isWork := strings.HasSuffix(e.User.Username, ":cert-manager") && !slices.Contains([]string{"leases", "events"}, e.ObjectRef.Resource)
		if isWork && e.ResponseStatus.Code < 300 && !e.RequestReceivedTimestamp.Time.Before(since.begin) {
			out = append(out, e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Name)
		}
	}
}

// wrote waits until these, in any order, are the rotator's writes since a mark.
func (l *lab) wrote(since mark, what string, writes ...string) {
	l.Helper()
	harness.Eventually(l, "what is written: "+what, harness.Patience, func(context.Context) error {
		written := l.written(since)
		if slices.Equal(slices.Sorted(slices.Values(written)), slices.Sorted(slices.Values(writes))) {
			return nil
		}
		return fmt.Errorf("%v was written, and is to be %v", written, writes)
	})
}

// The rotator's writes, as the audit log has them.
const (
	wroteCA      = "update secrets/" + caSecret
	wroteTLS     = "update secrets/" + tlsSecret
	patchedHooks = "patch validatingwebhookconfigurations/" + configuration
	patchedCRD   = "patch customresourcedefinitions/" + clonesets
)

// logged are the lines of a process's log for which a condition holds.
func (l *lab) logged(p *localcluster.Process, is func(level, message string) bool) []string {
	l.Helper()
	raw, err := os.ReadFile(p.Log)
	require.NoError(l, err)
	var out []string
	for line := range bytes.Lines(raw) {
		var said struct{ Level, Msg string }
		// What is no JSON was said by somebody else than the logger, and nobody should.
		if err := json.Unmarshal(line, &said); err != nil || is(said.Level, said.Msg) {
			out = append(out, string(line))
		}
	}
	return out
}
