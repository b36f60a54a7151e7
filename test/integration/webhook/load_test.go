package webhook

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/flotilla-k8s/flotilla/internal/certs"
	"github.com/flotilla-k8s/flotilla/test/harness"
	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// pairInFiles makes a serving pair, and the pool that trusts it.
func pairInFiles(t *testing.T, host string) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	now := time.Now()
	issuer, err := certs.NewAuthority(rand.Reader, now.Add(-time.Hour), now.Add(2*time.Hour))
	require.NoError(t, err)
	pair, err := certs.Issue(rand.Reader, issuer, []string{host}, now.Add(-time.Hour), now.Add(time.Hour))
	require.NoError(t, err)
	raw, err := pair.KeyPEM()
	require.NoError(t, err)
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	require.NoError(t, os.WriteFile(certificate, pair.PEM(), 0o600))
	require.NoError(t, os.WriteFile(key, raw, 0o600))
	roots = x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(issuer.PEM()))
	return certificate, key, roots
}

// caller posts on one connection, and counts how often it had to open one.
type caller struct {
	client *http.Client
	opened *atomic.Int64
}

func newCaller(roots *x509.CertPool, host string) caller {
	c := caller{opened: &atomic.Int64{}}
	dialer := &net.Dialer{}
	c.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}, MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.opened.Add(1)
			return dialer.DialContext(ctx, network, address)
		},
	}}
	return c
}

func (c caller) post(ctx context.Context, url, body string) error {
	// The client cannot read such a body twice, so it does not hide a lost connection by trying again.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return err
	}
	request.ContentLength = int64(len(body))
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || !strings.Contains(string(answer), `"Success"`)) {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return err
}

// inFiles is a server that has its pair in files, and converts.
func inFiles(t *testing.T, host string) (server string, roots *x509.CertPool, p *localcluster.Process) {
	t.Helper()
	certificate, key, roots := pairInFiles(t, host)
	server, health := harness.FreeAddress(t), harness.FreeAddress(t)
	p = cluster.StartController(t, "webhook-server", "", "--bind-address="+server, "--health-probe-bind-address="+health,
		"--tls-cert-file="+certificate, "--tls-key-file="+key, "--shutdown-delay=1s")
	harness.Eventually(t, "readiness", harness.Patience, func(ctx context.Context) error { return isReady(ctx, health) })
	return server, roots, p
}

// TestScenario036_TenCallersAtOnceFailNothing has ten callers convert an object of 8 KiB each, as fast as they are answered. How
// long that takes, and how many a processor converts a second, test/bench measures where nothing else runs: convert.go.
func TestScenario036_TenCallersAtOnceFailNothing(t *testing.T) {
	const callers, each, size = 10, 100, 8 << 10
	const host = "flotilla-webhook.flotilla-system.svc"
	server, roots, p := inFiles(t, host)
	var settings []string
	for i := 0; len(settings)*100 < size; i++ {
		settings = append(settings, fmt.Sprintf(`{"name":"SETTING_%04d","value":"https://service.namespace.svc.cluster.local:8443/some/path?of=usual"}`, i))
	}
	review := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1alpha1",`+
		`"objects":[{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"main",`+
		`"image":"registry.example/web:1","env":[%s]}]}},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","partition":1}}}}]}}`, strings.Join(settings, ","))
	require.GreaterOrEqual(t, len(review), size)
	failures := make(chan error, callers*each)
	var wg sync.WaitGroup
	for range callers {
		c := newCaller(roots, host)
		wg.Go(func() {
			for range each {
				if err := c.post(t.Context(), "https://"+server+"/convert?timeout=30s", review); err != nil {
					failures <- err
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Errorf("a call failed: %v", err)
	}
	most, err := localcluster.MemoryOf(p.Pid(), "VmHWM:")
	require.NoError(t, err)
	t.Logf("%d MiB", most>>20)
	require.Less(t, most, int64(64<<20))
}

func TestScenario010_ConnectionsThatAreKeptAreNotClosedUnderTheirCallers(t *testing.T) {
	t.Parallel()
	const callers, pause, span = 40, 500 * time.Millisecond, 25 * time.Second
	const host = "flotilla-webhook.flotilla-system.svc"
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1",` +
		`"objects":[{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web"},"spec":{"replicas":1}}]}}`
	server, roots, _ := inFiles(t, host)

	var calls, opened atomic.Int64
	failures := make(chan error, callers)
	deadline, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var wg sync.WaitGroup
	for range callers {
		c := newCaller(roots, host)
		wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			defer func() { opened.Add(c.opened.Load()) }()
			for {
				// A call that has begun is to be answered, also after the deadline.
				if err := c.post(t.Context(), "https://"+server+"/convert?timeout=30s", review); err != nil {
					failures <- err
					return
				}
				calls.Add(1)
				select {
				case <-tick.C:
				case <-deadline.Done():
					return
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Errorf("a call failed: %v", err)
	}
	require.EqualValues(t, callers, opened.Load(), "connections were closed between calls")
	require.Greater(t, calls.Load(), int64(callers*10), "the callers were held up")
}

// crowd is a client with a ServiceAccount of its own that may create CloneSets, and counts the templates that were not checked.
func (l *lab) crowd() (objects dynamic.Interface, unchecked *atomic.Int64) {
	l.Helper()
	const name = "crowd"
	ctx, meta := l.Context(), metav1.ObjectMeta{Name: name}
	_, err := cluster.Kube.CoreV1().ServiceAccounts(l.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(l, err)
	rule := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"apps.kruise.io"}, Resources: []string{"clonesets"}}
	_, err = cluster.Kube.RbacV1().Roles(l.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	require.NoError(l, err)
	_, err = cluster.Kube.RbacV1().RoleBindings(l.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: l.namespace}}}, metav1.CreateOptions{})
	require.NoError(l, err)
	token, err := cluster.Kube.CoreV1().ServiceAccounts(l.namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(l, err)
	config := rest.AnonymousClientConfig(cluster.Config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	unchecked = &atomic.Int64{}
	config.WarningHandler = warned(func(text string) {
		if strings.Contains(text, "was not checked") {
			unchecked.Add(1)
		}
	})
	objects, err = dynamic.NewForConfig(config)
	require.NoError(l, err)
	return objects, unchecked
}

type warned func(text string)

func (w warned) HandleWarningHeader(_ int, _, text string) { w(text) }

// fewSeats puts all ServiceAccounts that have no level of their own into one that is as small as can be, until the test ends, and
// returns its name. How many seats that are depends on the server: it divides its own by shares.
func (l *lab) fewSeats() string {
	l.Helper()
	const name = "few-seats"
	levels, schemas := cluster.Kube.FlowcontrolV1().PriorityLevelConfigurations(), cluster.Kube.FlowcontrolV1().FlowSchemas()
	_, err := levels.Create(l.Context(), &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: ptr.To(int32(1)), LendablePercent: ptr.To(int32(0)), BorrowingLimitPercent: ptr.To(int32(0)),
			LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 16, HandSize: 4, QueueLengthLimit: 200}},
		}}}, metav1.CreateOptions{})
	require.NoError(l, err)
	everything := []string{"*"}
	_, err = schemas.Create(l.Context(), &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
		// Before the level of all ServiceAccounts that every cluster has, and after that of webhook-server.
		MatchingPrecedence: 2000, PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
		DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
		Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: "system:serviceaccounts"}}},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: everything, APIGroups: everything, Resources: everything, Namespaces: everything, ClusterScope: true}},
		}},
	}}, metav1.CreateOptions{})
	require.NoError(l, err)
	l.Cleanup(func() {
		// The test's own context has ended by now.
		_ = schemas.Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = levels.Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return name
}

// metric adds up the series of a metric of the API server that have all these labels.
func metric(ctx context.Context, name string, labels ...string) (total float64, err error) {
	raw, err := cluster.Kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		rest, ok := strings.CutPrefix(line, name+"{")
		if !ok || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			return 0, err
		}
		total += value
	}
	return total, nil
}

func TestScenario090_CreatesThatHoldTheSeatsDoNotWaitForThemselves(t *testing.T) {
	const seats, crowd = 20, 200
	l := newLab(t)
	l.admit()
	out, err := cluster.Kubectl("apply", "--server-side", "-f", filepath.Join(cluster.Root, "deploy", "webhook-server", "priority.yaml"))
	require.NoError(t, err, out)
	level := l.fewSeats()
	objects, unchecked := l.crowd()
	ofLevel := fmt.Sprintf("priority_level=%q", level)
	harness.Eventually(t, "a level of few seats", harness.Patience, func(ctx context.Context) error {
		n, err := metric(ctx, "apiserver_flowcontrol_nominal_limit_seats", ofLevel)
		if err == nil && (n < 1 || n > seats) {
			err = fmt.Errorf("it has %g seats", n)
		}
		return err
	})
	own := fmt.Sprintf("flow_schema=%q", "flotilla-webhook-server")
	asked, err := metric(t.Context(), "apiserver_flowcontrol_dispatched_requests_total", own)
	require.NoError(t, err)

	sets := objects.Resource(schema.GroupVersionResource{Group: "apps.kruise.io", Version: "v1beta1", Resource: "clonesets"}).Namespace(l.namespace)
	failures := make(chan error, crowd)
	var wg sync.WaitGroup
	for i := range crowd {
		set := cloneSet("v1beta1", nil)
		set.SetName(fmt.Sprintf("web-%d", i))
		wg.Go(func() {
			if _, err := sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
				failures <- err
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		t.Errorf("a create failed: %v", err)
	}
	waited, err := metric(t.Context(), "apiserver_flowcontrol_request_queue_length_after_enqueue_sum", ofLevel)
	require.NoError(t, err)
	require.Positive(t, waited, "nobody had to wait: the seats were not few")
	now, err := metric(t.Context(), "apiserver_flowcontrol_dispatched_requests_total", own)
	require.NoError(t, err)
	require.GreaterOrEqual(t, now-asked, crowd/2.0, "templates were judged in the level of the creates")
	// A template that waits too long for a seat is given up, and its object is accepted with a warning.
	rejected, err := metric(t.Context(), "apiserver_flowcontrol_rejected_requests_total", own)
	require.NoError(t, err)
	require.Zero(t, rejected)
	require.Less(t, unchecked.Load(), int64(crowd/2))
}
