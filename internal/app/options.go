package app

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// off is the address that switches a server off.
const off = "0"

// Options are the flags that all components share.
type Options struct {
	Kubeconfig      string
	QPS             float32
	Burst           int
	ConcurrentSyncs int
	Namespace       string

	LeaderElect          bool
	LeaderElectNamespace string
	LeaderElectLeaseName string
	LeaseDuration        time.Duration
	RenewDeadline        time.Duration
	RetryPeriod          time.Duration
	// endsWithLease is the component's choice, not a flag.
	endsWithLease bool

	MetricsAddress string
	HealthAddress  string
	ProfileAddress string

	LogFormat string
	Verbosity int
}

func defaultOptions(lease string, concurrentSyncs int) *Options {
	return &Options{
		QPS: -1, Burst: 0, ConcurrentSyncs: concurrentSyncs,
		LeaderElect: true, LeaderElectNamespace: ownNamespace(), LeaderElectLeaseName: lease,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		MetricsAddress: ":8080", HealthAddress: ":8081", ProfileAddress: "127.0.0.1:6060",
		LogFormat: "json",
	}
}

// ownNamespace is the namespace of the Pod that the process runs in; outside of a cluster that of the product.
func ownNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if ns := strings.TrimSpace(string(raw)); err == nil && ns != "" {
		return ns
	}
	return "flotilla-system"
}

// addClientFlags adds what every process needs that talks to the API server and logs.
func (o *Options) addClientFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "path of a kubeconfig; empty: the Pod's ServiceAccount, or outside of a cluster $KUBECONFIG or ~/.kube/config")
	f.Float32Var(&o.QPS, "kube-api-qps", o.QPS, "requests per second to the API server; -1: no limit of our own, the server's Priority and Fairness decides")
	f.IntVar(&o.Burst, "kube-api-burst", o.Burst, "requests at once beyond --kube-api-qps; 0: twice that")
	f.StringVar(&o.LogFormat, "log-format", o.LogFormat, "json or console")
	f.IntVarP(&o.Verbosity, "v", "v", o.Verbosity, "detail of the log, 0 to 7: 0 is for operators, 2 adds every write, 4 every decision, 6 every request")
}

func (o *Options) addFlags(f *pflag.FlagSet) {
	o.addClientFlags(f)
	f.IntVar(&o.ConcurrentSyncs, "concurrent-syncs", o.ConcurrentSyncs, "objects worked on at a time")
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "the only namespace to watch; empty: all")
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "work only while holding the lease, so that several replicas can run")
	f.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", o.LeaderElectNamespace, "namespace of the lease")
	f.StringVar(&o.LeaderElectLeaseName, "leader-elect-lease-name", o.LeaderElectLeaseName, "name of the lease")
	f.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", o.LeaseDuration, "how long others wait for a leader that does not renew")
	f.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", o.RenewDeadline, "how long a leader tries to renew before it stops working")
	f.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", o.RetryPeriod, "time between two attempts at the lease")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress, "address of the metrics; 0: off")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", o.HealthAddress, "address of /livez and /readyz; 0: off")
	f.StringVar(&o.ProfileAddress, "pprof-bind-address", o.ProfileAddress, "loopback address of the profiles; 0: off")
}

// maxVerbosity is the most of which client-go logs no bodies of requests and answers, which may be Secrets.
const maxVerbosity = 7

// validate returns all that is wrong, each with what is allowed.
func (o *Options) validate() error {
	var errs []error
	wrong := func(flag string, value any, allowed string) {
		errs = append(errs, fmt.Errorf("--%s is %v: must be %s", flag, value, allowed))
	}
	if o.QPS == 0 || o.QPS < 0 && o.QPS != -1 {
		wrong("kube-api-qps", o.QPS, "-1 or greater than 0")
	}
	if o.Burst < 0 {
		wrong("kube-api-burst", o.Burst, "0 or more")
	}
	if o.ConcurrentSyncs < 1 || o.ConcurrentSyncs > 1000 {
		wrong("concurrent-syncs", o.ConcurrentSyncs, "1 to 1000")
	}
	if o.LogFormat != "json" && o.LogFormat != "console" {
		wrong("log-format", o.LogFormat, "json or console")
	}
	if o.Verbosity < 0 || o.Verbosity > maxVerbosity {
		wrong("v", o.Verbosity, "0 to 7: beyond that, what Secrets hold would be logged")
	}
	if o.Namespace != "" && len(utilvalidation.IsDNS1123Label(o.Namespace)) > 0 {
		wrong("namespace", o.Namespace, "the name of a namespace or empty")
	}
	if o.LeaderElect {
		o.validateLease(wrong)
	}
	o.validateAddresses(wrong)
	return errors.Join(errs...)
}

func (o *Options) validateAddresses(wrong func(flag string, value any, allowed string)) {
	for flag, address := range map[string]string{
		"metrics-bind-address": o.MetricsAddress, "health-probe-bind-address": o.HealthAddress, "pprof-bind-address": o.ProfileAddress,
	} {
		if address != off && !isAddress(address) {
			wrong(flag, address, "host:port, :port or 0")
		}
	}
	if o.ProfileAddress != off && isAddress(o.ProfileAddress) && !isLoopback(o.ProfileAddress) {
		wrong("pprof-bind-address", o.ProfileAddress, "on loopback, such as 127.0.0.1:6060: profiles show memory")
	}
}

func (o *Options) validateLease(wrong func(flag string, value any, allowed string)) {
	if len(utilvalidation.IsDNS1123Subdomain(o.LeaderElectLeaseName)) > 0 {
		wrong("leader-elect-lease-name", o.LeaderElectLeaseName, "the name of a Lease")
	}
	if len(utilvalidation.IsDNS1123Label(o.LeaderElectNamespace)) > 0 {
		wrong("leader-elect-namespace", o.LeaderElectNamespace, "the name of a namespace")
	}
	if o.RetryPeriod < 100*time.Millisecond {
		wrong("leader-elect-retry-period", o.RetryPeriod, "100ms or more")
	}
	// The renewal is retried with up to a fifth of jitter.
	if o.RenewDeadline <= o.RetryPeriod+o.RetryPeriod/5 {
		wrong("leader-elect-renew-deadline", o.RenewDeadline, "greater than 1.2 times --leader-elect-retry-period")
	}
	if o.LeaseDuration <= o.RenewDeadline || o.LeaseDuration < time.Second {
		wrong("leader-elect-lease-duration", o.LeaseDuration, "at least 1s and greater than --leader-elect-renew-deadline")
	}
}

func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && (n > 0 || port == "0")
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
