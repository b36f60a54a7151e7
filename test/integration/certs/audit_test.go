package certs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// mark is where the API server's audit log ends now. A write is in it before it is answered.
func (l *lab) mark() int64 {
	l.Helper()
	info, err := os.Stat(filepath.Join(cluster.Dir, "audit.log"))
	require.NoError(l, err)
	return info.Size()
}

// written are the rotator's writes since a mark that were carried out, in their order: "patch secrets/name". Leases and events
// are not part of the work and are left out.
func (l *lab) written(since int64) []string {
	l.Helper()
	f, err := os.Open(filepath.Join(cluster.Dir, "audit.log"))
	require.NoError(l, err)
	defer f.Close()
	_, err = f.Seek(since, io.SeekStart)
	require.NoError(l, err)
	out := []string{}
	for r := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return out
		}
		require.NoError(l, err)
		var e struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Name string }
			ResponseStatus struct{ Code int }
		}
		require.NoError(l, json.Unmarshal(line, &e))
		if strings.HasSuffix(e.User.Username, ":cert-manager") && e.ResponseStatus.Code < 300 && !slices.Contains([]string{"leases", "events"}, e.ObjectRef.Resource) {
			out = append(out, e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Name)
		}
	}
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
