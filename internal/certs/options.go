package certs

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are the rotator's own flags.
type Options struct {
	Namespace, Service, CASecret, TLSSecret string
	Mutating, Validating, CRDs              []string
	ExtraSANs                               []string
	ClusterDomain                           string
	// Mode is ModeManage or ModePublishOnly; CAKey is where the latter finds the bundle.
	Mode, CAKey string
	Settings
}

// DefaultOptions are the names and lifetimes of the suite.
func DefaultOptions() *Options {
	const hour = time.Hour
	crds := []string{"clonesets", "statefulsets", "sidecarsets", "broadcastjobs", "advancedcronjobs", "uniteddeployments"}
	for i := range crds {
		crds[i] += ".apps.kruise.io"
	}
	return &Options{
		Namespace: "flotilla-system", Service: "flotilla-webhook", CASecret: "flotilla-webhook-ca", TLSSecret: "flotilla-webhook-tls",
		Mutating: []string{"flotilla-mutating-webhook-configuration"}, Validating: []string{"flotilla-validating-webhook-configuration"},
		CRDs: crds, Mode: ModeManage, CAKey: KeyIssuer,
		Settings: Settings{
			CAValidity: 43800 * hour, SigningPeriod: 8760 * hour, ServingValidity: 2160 * hour, RenewAfter: 720 * hour,
			PropagationDelay: 30 * time.Second, RevokeOverlap: 10 * time.Minute,
		},
	}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Service, "service", o.Service, "Service that the webhooks are called by")
	f.StringVar(&o.CASecret, "ca-secret", o.CASecret, "Secret of the authorities; the Role as shipped allows the default name only")
	f.StringVar(&o.TLSSecret, "tls-secret", o.TLSSecret, "Secret of the serving pair; the Role as shipped allows the default name only")
	f.StringSliceVar(&o.Mutating, "mutating-webhook-configuration", o.Mutating, "configuration whose caBundles are kept; repeatable")
	f.StringSliceVar(&o.Validating, "validating-webhook-configuration", o.Validating, "configuration whose caBundles are kept; repeatable")
	f.StringSliceVar(&o.CRDs, "crd", o.CRDs, "CRD whose conversion's caBundle is kept; repeatable")
	f.StringSliceVar(&o.ExtraSANs, "extra-san", o.ExtraSANs, "further name of the serving certificate, as *.example.com for all of a domain, or address; hooks with a URL of such a host are ours too; repeatable")
	f.StringVar(&o.ClusterDomain, "cluster-domain", o.ClusterDomain, "DNS domain of the cluster; empty: no such name in the certificate")
	f.StringVar(&o.Mode, "mode", o.Mode, "manage: issue and publish; publish-only: publish the bundle of --ca-secret, which somebody else maintains")
	f.StringVar(&o.CAKey, "ca-key", o.CAKey, "key of --ca-secret that has the bundle; with --mode=publish-only")
	f.DurationVar(&o.CAValidity, "ca-validity", o.CAValidity, "how long an authority is valid")
	f.DurationVar(&o.SigningPeriod, "ca-signing-period", o.SigningPeriod, "how long an authority signs")
	f.DurationVar(&o.ServingValidity, "serving-validity", o.ServingValidity, "how long a serving certificate is valid")
	f.DurationVar(&o.RenewAfter, "serving-renew-after", o.RenewAfter, "age at which a serving certificate is replaced, give or take a tenth")
	f.DurationVar(&o.PropagationDelay, "propagation-delay", o.PropagationDelay, "how long an authority is trusted before it is used")
	f.DurationVar(&o.RevokeOverlap, "revoke-overlap", o.RevokeOverlap, "how long revoked authorities stay trusted after their last certificate was replaced")
}

// Check says what is wrong with the flags.
func (o *Options) Check() error {
	_, err := o.settings()
	return err
}

// checkSecrets checks what Secrets are used, and how.
func (o *Options) checkSecrets(wrong func(flag, value, allowed string)) {
	for flag, value := range map[string]string{"ca-secret": o.CASecret, "tls-secret": o.TLSSecret} {
		if len(validation.IsDNS1123Subdomain(value)) > 0 {
			wrong(flag, value, "the name of a Secret")
		}
	}
	if o.Mode != ModeManage && o.Mode != ModePublishOnly {
		wrong("mode", o.Mode, ModeManage+" or "+ModePublishOnly)
	}
	if o.CAKey != KeyIssuer && o.Mode != ModePublishOnly {
		wrong("ca-key", o.CAKey, "left alone without --mode="+ModePublishOnly)
	}
	if len(validation.IsConfigMapKey(o.CAKey)) > 0 {
		wrong("ca-key", o.CAKey, "the key of a Secret")
	}
	if o.CASecret == o.TLSSecret && o.Mode == ModeManage {
		wrong("tls-secret", o.TLSSecret, "another Secret than --ca-secret: who serves must not read the authorities' keys")
	}
}

// settings checks the flags and completes the names of the certificate.
func (o *Options) settings() (Settings, error) {
	s := o.Settings
	var errs []error
	wrong := func(flag, value, allowed string) {
		errs = append(errs, fmt.Errorf("--%s is %q: must be %s", flag, value, allowed))
	}
	o.checkSecrets(wrong)
	for flag, value := range map[string]string{"namespace": o.Namespace, "service": o.Service} {
		if len(validation.IsDNS1123Label(value)) > 0 {
			wrong(flag, value, "a DNS label")
		}
	}
	for _, name := range o.ExtraSANs {
		if net.ParseIP(name) == nil && len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
			wrong("extra-san", name, "a DNS name, with or without *. in front, or an IP address")
		}
	}
	if o.ClusterDomain != "" && len(validation.IsDNS1123Subdomain(o.ClusterDomain)) > 0 {
		wrong("cluster-domain", o.ClusterDomain, "a DNS domain")
	}
	service := o.Service + "." + o.Namespace
	s.Names = []string{service + ".svc", service, o.Service, "localhost", "127.0.0.1", "::1"}
	if o.ClusterDomain != "" {
		s.Names = append(s.Names, service+".svc."+strings.TrimSuffix(o.ClusterDomain, "."))
	}
	s.Names = slices.Concat(s.Names, o.ExtraSANs)
	return s, errors.Join(append(errs, s.Check())...)
}
