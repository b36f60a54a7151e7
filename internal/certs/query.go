package certs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/flotilla-k8s/flotilla/internal/app"
)

// Bundle prints what every caBundle is to hold.
func (o *Options) Bundle(ctx context.Context, env *app.Env, out io.Writer) error {
	r, err := o.glance(env)
	if err != nil {
		return err
	}
	ca, err := r.api.secret(ctx, o.CASecret)
	if err != nil {
		return err
	}
	bundle, err := o.bundleIn(ca, r.clocks().judged())
	if err != nil {
		return fmt.Errorf("Secret %s/%s holds no bundle: %w", o.Namespace, o.CASecret, err) //nolint:staticcheck // It begins with a kind.
	}
	if _, err := out.Write(bundle); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func (o *Options) bundleIn(ca *corev1.Secret, now time.Time) ([]byte, error) {
	key := KeyBundle
	if o.Mode == ModePublishOnly {
		key = o.CAKey
	}
	if ca == nil || len(ca.Data[key]) == 0 {
		return nil, fmt.Errorf("it has no %s yet", key)
	}
	if o.Mode != ModePublishOnly {
		return ca.Data[key], nil
	}
	list, err := externalBundle(ca.Data[key], now)
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	// What has expired is left out, as it is where the bundle is published.
	return EncodeBundle(list), nil
}

// Status prints how everything stands. The error says what is amiss; a rotation that is under way is not.
func (o *Options) Status(ctx context.Context, env *app.Env, out io.Writer) error {
	r, err := o.glance(env)
	if err != nil {
		return err
	}
	ca, err := r.api.secret(ctx, o.CASecret)
	if err != nil {
		return err
	}
	tls, err := r.api.secret(ctx, o.TLSSecret)
	if err != nil {
		return err
	}
	if err := r.glanceAtTargets(ctx); err != nil {
		return err
	}
	p, err := r.planAsIfWatched(ca, tls)
	if err != nil {
		return err
	}
	return r.print(p, out)
}

// planAsIfWatched takes what a single look shows for what has been so all the time: whoever watches waits until targets have
// trusted an authority for a while, and a wait that begins anew with every look would hide what is due.
func (r *Rotator) planAsIfWatched(ca, tls *corev1.Secret) (pass, error) {
	clocks := r.clocks()
	readings := r.read(clocks.Steady)
	clocks.Steady = clocks.Steady.Add(r.settings.PropagationDelay + overdueAfter)
	p, err := r.plan(ca, tls, readings, clocks)
	if err != nil || p.Observed.Serving == nil || p.Observed.Serving.Pair == nil {
		return p, err
	}
	issued := r.settings.issuedAt(p.Observed.Serving.Pair.Certificate)
	r.servingSince = clocks.Steady.Add(-clocks.Now.Sub(issued))
	return r.plan(ca, tls, readings, clocks)
}

// glance is a rotator that reads once and tells nobody.
func (o *Options) glance(env *app.Env) (*Rotator, error) {
	if env.Namespace != "" {
		o.Namespace = env.Namespace
	}
	silent := *env
	silent.Recorder = silence{}
	return o.build(&silent)
}

// silence records no event.
type silence struct{}

func (silence) Event(runtime.Object, string, string, string)                                      {}
func (silence) Eventf(runtime.Object, string, string, string, ...any)                             {}
func (silence) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {}

// glanceAtTargets reads each target as it is now.
func (r *Rotator) glanceAtTargets(ctx context.Context) error {
	hooks, crds := r.env.Kube.AdmissionregistrationV1(), r.env.Extensions.ApiextensionsV1().CustomResourceDefinitions()
	get := metav1.GetOptions{}
	var errs []error
	for _, name := range r.options.Mutating {
		object, err := hooks.MutatingWebhookConfigurations().Get(ctx, name, get)
		errs = append(errs, r.keep(KindMutating, name, object, err))
	}
	for _, name := range r.options.Validating {
		object, err := hooks.ValidatingWebhookConfigurations().Get(ctx, name, get)
		errs = append(errs, r.keep(KindValidating, name, object, err))
	}
	for _, name := range r.options.CRDs {
		object, err := crds.Get(ctx, name, get)
		errs = append(errs, r.keep(KindCRD, name, object, err))
	}
	return errors.Join(errs...)
}

func (r *Rotator) keep(kind, name string, object metav1.Object, err error) error {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	switch {
	case err == nil:
		err = store.Add(object)
	case apierrors.IsNotFound(err):
		err = nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kind, name, err)
	}
	r.targets = append(r.targets, &target{kind, name, store})
	return nil
}

func (r *Rotator) print(p pass, out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) {
		// A writer that fails says so when it is flushed.
		_, _ = fmt.Fprintf(w, format+"\n", args...)
	}
	r.printCertificates(p, line)
	p.printTargets(line)
	if p.Obstructed != "" {
		line("\nDUE\t%s\t\t", p.Obstructed)
	}
	if p.isDue() {
		line("\nDUE\t%s\t\t", p.Reason)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return r.amiss(p)
}

// printing writes a line.
type printing func(format string, args ...any)

func (r *Rotator) printCertificates(p pass, line printing) {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	a := p.Observed.Authorities
	line("CERTIFICATE\tNAME\tUNTIL\tNOTE")
	authority := func(what string, c *Pair, note string) {
		if c == nil {
			line("%s\t-\t-\tcannot be used", what)
			return
		}
		line("%s\t%s\t%s\t%s", what, c.Subject.CommonName, at(c.NotAfter), note)
	}
	if r.options.Mode == ModePublishOnly {
		for _, c := range p.Bundle {
			line("published\t%s\t%s\tissued by others", c.Subject, at(c.NotAfter))
		}
	} else {
		authority("current", a.Current, "signing since "+at(a.SigningSince))
		authority("next", a.Next, "signs from "+at(a.SigningSince.Add(r.settings.SigningPeriod)))
	}
	for _, c := range a.Previous {
		line("previous\t%s\t%s\tsigned until %s", c.Subject.CommonName, at(c.NotAfter), at(c.SignedUntil))
	}
	switch s := p.Observed.Serving.Pair; {
	case s == nil:
		line("serving\t-\t-\tcannot be used")
	case r.options.Mode == ModePublishOnly:
		line("serving\t%s\t%s\tby %s", s.SerialNumber.Text(16), at(s.NotAfter), s.Issuer)
	default:
		line("serving\t%s\t%s\tby %s, renewed at %s", s.SerialNumber.Text(16), at(s.NotAfter), s.Issuer.CommonName, at(RenewalOf(s.Certificate, r.settings)))
	}
}

func (p *pass) printTargets(line printing) {
	line("\nTARGET\tNAME\tSTATE\tCALLS")
	bundle := p.wanted()
	for i := range p.readings {
		t := &p.readings[i]
		line("%s\t%s\t%s\t%s", t.Kind, t.Name, t.stateOf(bundle), strings.Join(t.reading.calls, ", "))
	}
	for i := range p.readings {
		if t := &p.readings[i]; t.Managed {
			for _, stranger := range t.reading.strangers {
				line("\nNOTE\tin %s %s, %s: its caBundle is left alone\t\t", t.Kind, t.Name, stranger)
			}
		}
	}
}
