package webhook

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/flotilla-k8s/flotilla/internal/admission"
)

// Options are the server's own flags.
type Options struct {
	BindAddress, TLSSecret         string
	TLSCertFile, TLSKeyFile        string
	ServiceName, ServiceNamespace  string
	MaxConversionBody, MaxInFlight string
	TemplateValidation             string
	HistoryNamespace               string
	PatchPodMetadataAllowed        bool
	ShutdownDelay, ShutdownTimeout time.Duration
}

const defaultSecret = "flotilla-system/flotilla-webhook-tls"

// Ways to have Pod templates judged.
const (
	templatesDryRun = "dry-run"
	templatesOff    = "off"
)

// Templates judges Pod templates as the flags say; nil: nobody does.
func (o *Options) Templates(client kubernetes.Interface) *admission.Templates {
	if o.TemplateValidation == templatesOff {
		return nil
	}
	return admission.NewTemplates(client)
}

// DefaultOptions are the names and limits of the suite.
func DefaultOptions() *Options {
	return &Options{
		BindAddress: ":9443", TLSSecret: defaultSecret,
		ServiceName: "flotilla-webhook", ServiceNamespace: "flotilla-system",
		TemplateValidation: templatesDryRun, HistoryNamespace: "flotilla-system",
		MaxConversionBody: "32Mi", MaxInFlight: "128Mi",
		ShutdownDelay: 15 * time.Second, ShutdownTimeout: 10 * time.Second,
	}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "address of the webhooks")
	f.StringVar(&o.TLSSecret, "tls-secret", o.TLSSecret, "namespace/name of the Secret with the serving pair")
	f.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile, "file with the certificate, instead of --tls-secret; read again every 10 seconds, as is a ca.crt beside it")
	f.StringVar(&o.TLSKeyFile, "tls-key-file", o.TLSKeyFile, "file with the key of --tls-cert-file")
	f.StringVar(&o.ServiceName, "service-name", o.ServiceName, "Service that the webhooks are called by")
	f.StringVar(&o.ServiceNamespace, "service-namespace", o.ServiceNamespace, "namespace of that Service")
	f.StringVar(&o.MaxConversionBody, "max-conversion-body", o.MaxConversionBody, "largest body of a conversion review")
	f.StringVar(&o.MaxInFlight, "max-inflight-bytes", o.MaxInFlight, "sum of the bodies that are worked on at a time, with what their conversion takes beside them")
	f.StringVar(&o.TemplateValidation, "template-validation", o.TemplateValidation, "dry-run: the API server judges Pod templates; off: nobody does")
	f.StringVar(&o.HistoryNamespace, "history-namespace", o.HistoryNamespace, "namespace of the SidecarSets' revisions and of ConfigMap "+settingsName)
	f.BoolVar(&o.PatchPodMetadataAllowed, "sidecarset-patch-pod-metadata-defaults-allowed", o.PatchPodMetadataAllowed, "let SidecarSets patch annotations of Pods that ConfigMap "+settingsName+" says nothing about")
	f.DurationVar(&o.ShutdownDelay, "shutdown-delay", o.ShutdownDelay, "how long to go on serving after SIGTERM")
	f.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout, "how long requests that are under way have after that")
}

// checkPair checks where the serving pair comes from.
func (o *Options) checkPair() []error {
	var errs []error
	namespace, name, found := strings.Cut(o.TLSSecret, "/")
	if !found || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		errs = append(errs, fmt.Errorf("--tls-secret is %q: must be namespace/name", o.TLSSecret))
	}
	switch {
	case (o.TLSCertFile == "") != (o.TLSKeyFile == ""):
		errs = append(errs, errors.New("--tls-cert-file and --tls-key-file: must be given both or neither"))
	case o.TLSCertFile != "" && o.TLSSecret != defaultSecret:
		errs = append(errs, errors.New("--tls-secret and --tls-cert-file: only one of them may be given"))
	}
	return errs
}

// Check says what is wrong with the flags.
func (o *Options) Check() error {
	var errs []error
	wrong := func(flag, value, allowed string) {
		errs = append(errs, fmt.Errorf("--%s is %q: must be %s", flag, value, allowed))
	}
	if _, _, err := net.SplitHostPort(o.BindAddress); err != nil {
		wrong("bind-address", o.BindAddress, "host:port or :port")
	}
	errs = append(errs, o.checkPair()...)
	for flag, value := range map[string]string{"service-name": o.ServiceName, "service-namespace": o.ServiceNamespace, "history-namespace": o.HistoryNamespace} {
		if len(validation.IsDNS1123Label(value)) > 0 {
			wrong(flag, value, "a DNS label")
		}
	}
	for flag, value := range map[string]string{"max-conversion-body": o.MaxConversionBody, "max-inflight-bytes": o.MaxInFlight} {
		if bytesOf(value) <= 0 {
			wrong(flag, value, "a number of bytes such as 32Mi")
		}
	}
	if o.TemplateValidation != templatesDryRun && o.TemplateValidation != templatesOff {
		wrong("template-validation", o.TemplateValidation, "dry-run or off")
	}
	for flag, value := range map[string]time.Duration{"shutdown-delay": o.ShutdownDelay, "shutdown-timeout": o.ShutdownTimeout} {
		if value < 0 {
			wrong(flag, value.String(), "0s or more")
		}
	}
	return errors.Join(errs...)
}

// Conversions is what a conversion review may be.
func (o *Options) Conversions() Accept {
	return Accept{Bytes: bytesOf(o.MaxConversionBody), Depth: conversionDepth}
}

func (o *Options) inFlight() int64 { return bytesOf(o.MaxInFlight) }

// host is what the API server checks the certificate for.
func (o *Options) host() string { return o.ServiceName + "." + o.ServiceNamespace + ".svc" }

// pair is where the serving pair comes from.
func (o *Options) pair() string {
	if o.TLSCertFile != "" {
		return "file " + o.TLSCertFile
	}
	return "Secret " + o.TLSSecret
}

// bytesOf is 0 for text that is no number.
func bytesOf(text string) int64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return q.Value()
}
