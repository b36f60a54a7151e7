package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func component(built *int) Component {
	return Component{Name: "test-controller", ConcurrentSyncs: 2, New: func(*Env) (Runnable, error) {
		*built++
		return nil, errors.New("built")
	}}
}

func TestFlagsAreRefusedWithWhatIsAllowed(t *testing.T) {
	for arguments, word := range map[string]string{
		"--no-such-flag":                        "no-such-flag",
		"--log-format=xml":                      "json or console",
		"--concurrent-syncs=0":                  "1 to 1000",
		"--concurrent-syncs=many":               `--concurrent-syncs is "many": must be an integer`,
		"--kube-api-qps=abc":                    `--kube-api-qps is "abc": must be a number`,
		"-v=x":                                  `--v is "x": must be an integer`,
		"--leader-elect=maybe":                  "must be true or false",
		"--leader-elect-retry-period=5":         "must be a duration with its unit",
		"--kube-api-qps=0":                      "-1 or greater",
		"--metrics-bind-address=here":           "host:port",
		"--health-probe-bind-address=:99999":    "host:port",
		"--pprof-bind-address=0.0.0.0:6060":     "loopback",
		"--namespace=Not_A_Name":                "name of a namespace",
		"--leader-elect-lease-duration=5s":      "greater than --leader-elect-renew-deadline",
		"--leader-elect-retry-period=9s":        "1.2 times",
		"--v=8":                                 "0 to 7",
		"surplus":                               "only flags",
		"--kubeconfig=/does/not/exist":          "readable kubeconfig",
		"--log-format=xml --concurrent-syncs=0": "; ",
	} {
		t.Run(arguments, func(t *testing.T) {
			built := 0
			command := newCommand(component(&built))
			command.SetArgs(strings.Fields(arguments))
			command.SetOut(io.Discard)
			command.SetErr(io.Discard)
			err := command.ExecuteContext(t.Context())
			require.ErrorIs(t, err, errUsage)
			require.ErrorContains(t, err, word)
			require.NotContains(t, err.Error(), "strconv")
			require.Zero(t, built)
		})
	}
}

func TestWhereNoClusterIsKnownTheErrorSaysHowToNameOne(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	for what, c := range map[string]struct {
		env, flag string
		words     []string
	}{
		"nothing is given":          {"/does/not/exist", "", []string{"--kubeconfig=FILE", "export KUBECONFIG=FILE", "/does/not/exist"}},
		"the flag's file is empty":  {"", empty, []string{"--kubeconfig", empty, "current context"}},
		"the flag's file is broken": {"", broken, []string{"--kubeconfig must name", broken}},
		"$KUBECONFIG's is broken":   {broken, "", []string{"$KUBECONFIG must name", broken}},
		"the flag's is nowhere":     {"", "/does/not/exist", []string{"--kubeconfig must name", "no such file"}},
	} {
		t.Setenv("KUBECONFIG", c.env)
		o := defaultOptions("x", 1)
		o.Kubeconfig = c.flag
		_, err := loadConfig(o)
		for _, word := range c.words {
			require.ErrorContains(t, err, word, what)
		}
		require.NotContains(t, err.Error(), "KUBERNETES_MASTER", what)
	}
}

func TestVersionAndDefaults(t *testing.T) {
	built := 0
	command := newCommand(component(&built))
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--version"})
	require.NoError(t, command.ExecuteContext(t.Context()))
	require.Contains(t, out.String(), "test-controller version v0")
	o := defaultOptions("x", 3)
	require.NoError(t, o.validate())
	require.True(t, o.LeaderElect)
	require.Equal(t, "x", o.LeaderElectLeaseName)
	require.EqualValues(t, -1, o.QPS)
	require.Equal(t, []string{":8080", ":8081"}, []string{o.MetricsAddress, o.HealthAddress})
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) add(_, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, args)
}

func TestALostConnectionIsToldOncePerChange(t *testing.T) {
	var log lines
	c := newConnection(funcr.New(log.add, funcr.Options{}))
	fails := true
	trip := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		if fails {
			return nil, syscall.ECONNREFUSED
		}
		return &http.Response{}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server.example/api", nil)
	require.NoError(t, err)
	try := func() { _, _ = trip.RoundTrip(request) } //nolint:bodyclose // there is none
	for _, is := range []bool{true, true, true, false, false, true} {
		fails = is
		try()
	}
	require.Len(t, log.text, 3)
	require.Contains(t, log.text[0], "cannot be reached")
	require.Contains(t, log.text[1], "answers again")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = trip.RoundTrip(request.WithContext(ended)) //nolint:bodyclose // there is none
	require.Len(t, log.text, 3, "a request that we gave up says nothing about the server")
}

func TestAMissingPermissionIsToldOnce(t *testing.T) {
	var log lines
	c := newConnection(funcr.New(log.add, funcr.Options{}))
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(`User "x" cannot list resource "pods"`))
	for range 3 {
		c.watchFailed(t.Context(), nil, forbidden)
	}
	require.Len(t, log.text, 1)
	require.Contains(t, log.text[0], "permission")
	require.Contains(t, log.text[0], "cannot list")
}

func TestALeaseThatCannotBeCreatedIsToldOnceWithWhatToDo(t *testing.T) {
	var log lines
	client := fake.NewClientset()
	var answer error
	client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &coordinationv1.Lease{}, answer })
	l := &lease{log: funcr.New(log.add, funcr.Options{}), namespace: "ours", Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "ours", Name: "x"}, Client: client.CoordinationV1(),
	}}
	for _, answer = range []error{
		apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ours"),
		apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ours"),
		apierrors.NewAlreadyExists(schema.GroupResource{Resource: "leases"}, "x"),
		syscall.ECONNREFUSED,
		apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", errors.New("no right")),
		nil,
		apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ours"),
	} {
		require.Equal(t, answer, l.Create(t.Context(), resourcelock.LeaderElectionRecord{}))
	}
	require.Len(t, log.text, 3)
	for _, word := range []string{"kubectl create namespace ours", "--leader-elect-namespace", "--leader-elect=false"} {
		require.Contains(t, log.text[0], word)
	}
	require.Contains(t, log.text[1], "no right")
	quiet{funcr.New(log.add, funcr.Options{}).GetSink()}.Error(answer, notCreated)
	require.Len(t, log.text, 3, "client-go says it again and again")
}

func TestServersSayWhetherTheProcessIsReady(t *testing.T) {
	s := &servers{log: funcr.New(func(string, string) {}, funcr.Options{})}
	defer s.stop()
	o := defaultOptions("x", 1)
	o.HealthAddress, o.MetricsAddress, o.ProfileAddress = "127.0.0.1:0", off, off
	require.NoError(t, s.start(o, nil))
	require.Len(t, s.running, 1)
	get := func(path string) int {
		recorder := httptest.NewRecorder()
		s.running[0].Handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code
	}
	require.Equal(t, http.StatusOK, get("/livez"))
	require.Equal(t, http.StatusServiceUnavailable, get("/readyz"))
	s.ready.Store(true)
	require.Equal(t, http.StatusOK, get("/readyz"))
	o.HealthAddress = "256.0.0.1:1"
	require.ErrorContains(t, s.start(o, nil), "--health-probe-bind-address")
}

// refusing is a component that cannot start as it was called.
type refusing struct{ error }

func (r refusing) Start(context.Context) error { return r.error }
func (refusing) Work(context.Context, int)     {}

func TestAComponentMaySayThatItWasCalledWrongly(t *testing.T) {
	wrong := Usage(errors.New("--bind-address: address already in use (choose another address)"))
	err := live(t.Context(), refusing{wrong}, &servers{}, nil, defaultOptions("x", 1))
	require.Equal(t, wrong, err)
	err = live(t.Context(), refusing{errors.New("no answer")}, &servers{}, nil, defaultOptions("x", 1))
	require.EqualError(t, err, "starting: no answer")
	require.NotErrorIs(t, err, errUsage)
}

func TestWorkOfALeaderEndsBeforeItsTenure(t *testing.T) {
	var tenure tenure
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan struct{})
	go tenure.run(t.Context(), ctx, func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		close(ended)
	})
	<-begun
	cancel()
	tenure.end()
	select {
	case <-ended:
	case <-time.After(time.Second):
		t.Fatal("end returned before the work did")
	}
	tenure.run(t.Context(), t.Context(), func(context.Context) { t.Error("work began after the end") })
}
