package local

import (
	"fmt"
	"strings"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

const (
	etcd       = "etcd"
	apiserver  = "kube-apiserver"
	manager    = "kube-controller-manager"
	scheduler  = "kube-scheduler"
	kubectl    = "kubectl"
	kwok       = "kwok"
	simSupport = "sim-support"
)

// kubeComponents are the names under which the multi-call binary is linked.
var kubeComponents = []string{etcd, apiserver, manager, scheduler, kubectl, simSupport}

// running are the processes of a complete cluster, in the order in which they start. They end the other way round.
var running = []string{etcd, apiserver, manager, scheduler, kwok, simSupport}

// account is who a component is to the API server.
type account struct {
	component, user string
	groups          []string
}

var accounts = []account{
	{component: "admin", user: "kubernetes-admin", groups: []string{"system:masters"}},
	{component: manager, user: "system:kube-controller-manager"},
	{component: scheduler, user: "system:kube-scheduler"},
	// What the simulator may do is not what is tested here.
	{component: kwok, user: "system:sim:kubelet", groups: []string{"system:masters"}},
	{component: simSupport, user: "system:sim:support", groups: []string{"system:masters"}},
}

// portPlan is who listens where on the loopback address.
type portPlan struct {
	etcd, etcdPeer, api, manager, scheduler int
}

func loopback(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

func (p portPlan) server() string { return loopback("https", p.api) }

// arguments is the command line of a component.
func (l layout) arguments(name string, p portPlan, o state.Options) []string {
	switch name {
	case etcd:
		return l.etcdArguments(p)
	case apiserver:
		return l.apiserverArguments(p)
	case manager:
		return l.managerArguments(p, o)
	case scheduler:
		return append(l.delegating(scheduler, p.scheduler), "--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000")
	case kwok:
		return []string{"--config", l.config("kwok.yaml"), "--kubeconfig", l.config("kwok.kubeconfig")}
	case simSupport:
		return []string{"--kubeconfig", l.config("sim-support.kubeconfig")}
	}
	return nil
}

func (l layout) etcdArguments(p portPlan) []string {
	client, peer := loopback("http", p.etcd), loopback("http", p.etcdPeer)
	return []string{
		"--name=local", "--data-dir=" + l.etcd(), "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=local=" + peer,
		// The data is thrown away with the cluster; waiting for the disk would only make it slow.
		"--unsafe-no-fsync", "--quota-backend-bytes=4294967296",
	}
}

func (l layout) apiserverArguments(p portPlan) []string {
	return []string{
		"--etcd-servers=" + loopback("http", p.etcd),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.api),
		// A loopback address is not allowed as the endpoint of the Service `kubernetes`, and no Pod could reach it.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + l.config("apiserver.crt"), "--tls-private-key-file=" + l.config("apiserver.key"),
		"--client-ca-file=" + l.config("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + l.config("sa.key"), "--service-account-key-file=" + l.config("sa.pub"),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range=10.96.0.0/16",
		// Priority and Fairness shares these out; the sum is what a server of this size has by far enough of.
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
		"--audit-policy-file=" + l.config("audit-policy.yaml"), "--audit-log-path=" + l.audit(),
		// A write is in the log before it is answered, so whoever counts writes misses none.
		"--audit-log-mode=blocking",
	}
}

func (l layout) managerArguments(p portPlan, o state.Options) []string {
	controllers := []string{"*"}
	for _, name := range o.Without {
		controllers = append(controllers, "-"+name)
	}
	return append(l.delegating(manager, p.manager),
		"--controllers="+strings.Join(controllers, ","),
		"--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+l.config("sa.key"), "--root-ca-file="+l.config("ca.crt"),
		"--cluster-signing-cert-file="+l.config("ca.crt"), "--cluster-signing-key-file="+l.config("ca.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
	)
}

// delegating are the flags of a component that serves on a port of its own and asks the API server who may read there.
func (l layout) delegating(name string, port int) []string {
	file := l.config(name + ".kubeconfig")
	return []string{
		"--kubeconfig=" + file, "--authentication-kubeconfig=" + file, "--authorization-kubeconfig=" + file,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + l.config("apiserver.crt"), "--tls-private-key-file=" + l.config("apiserver.key"),
	}
}

// auditPolicy logs every write and no read.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
