package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Ways to migrate.
const (
	methodAuto    = "auto"
	methodCluster = "cluster"
	methodRewrite = "rewrite"
)

// Options are the flags.
type Options struct {
	CRDs            []string
	Method          string
	Timeout         time.Duration
	WritesPerSecond float32
}

// DefaultOptions migrate all kinds of the suite.
func DefaultOptions() *Options {
	o := &Options{Method: methodAuto, Timeout: time.Hour, WritesPerSecond: 50}
	for _, plural := range []string{"clonesets", "statefulsets", "sidecarsets", "broadcastjobs", "advancedcronjobs", "uniteddeployments"} {
		o.CRDs = append(o.CRDs, plural+".apps.kruise.io")
	}
	return o
}

// AddFlags adds the flags.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.CRDs, "crds", o.CRDs, "names of the CRDs whose objects to migrate")
	f.StringVar(&o.Method, "method", o.Method, "cluster: by a StorageVersionMigration, which the cluster carries out; rewrite: by this process; auto: cluster if it can")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long all of it may take")
	f.Float32Var(&o.WritesPerSecond, "writes-per-second", o.WritesPerSecond, "most writes a second of this process")
}

// Check says what is wrong with the flags.
func (o *Options) Check() error {
	var errs []error
	for _, name := range o.CRDs {
		if !strings.Contains(name, ".") {
			errs = append(errs, fmt.Errorf("--crds has %q: must be names of CRDs such as clonesets.apps.kruise.io", name))
		}
	}
	if o.Method != methodAuto && o.Method != methodCluster && o.Method != methodRewrite {
		errs = append(errs, fmt.Errorf("--method is %q: must be auto, cluster or rewrite", o.Method))
	}
	if o.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout is %s: must be longer than 0s", o.Timeout))
	}
	if o.WritesPerSecond <= 0 {
		errs = append(errs, fmt.Errorf("--writes-per-second is %v: must be greater than 0", o.WritesPerSecond))
	}
	return errors.Join(errs...)
}

// Migrator migrates.
type Migrator struct {
	Options
	Kube       kubernetes.Interface
	Metadata   metadata.Interface
	Extensions apiextensions.Interface
}

// rounds is how often a migration is begun anew because the CRD changed meanwhile.
const rounds = 5

// Run migrates the objects of one CRD after the other. What fails for one keeps no other from being migrated.
func (m *Migrator) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	delegate, err := m.delegates()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range m.CRDs {
		if err := m.migrate(ctx, name, delegate); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (m *Migrator) migrate(ctx context.Context, name string, delegate bool) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("crd", name)
	for range rounds {
		crd, err := m.read(ctx, name)
		if apierrors.IsNotFound(err) {
			log.Info("the CRD is not installed: nothing to migrate")
			return nil
		}
		if err != nil {
			return err
		}
		storage, err := storedIn(crd)
		if err != nil {
			return err
		}
		if !isDue(crd, storage.Version) {
			log.Info("all objects are stored in the storage version", "version", storage.Version)
			return nil
		}
		log.Info("migrating", "storedVersions", crd.Status.StoredVersions, "to", storage.Version)
		done := false
		if delegate {
			done, err = m.delegate(ctx, crd, storage)
		} else {
			done, err = m.rewrite(ctx, crd, storage)
		}
		if err != nil {
			return err
		}
		if !done {
			log.Info("the CRD was changed meanwhile: beginning anew")
		}
	}
	return fmt.Errorf("the CRD was changed during each of %d migrations: find out who writes it (kubectl get crd %s -o yaml --show-managed-fields) and run this again", rounds, name)
}

// read asks for the status alone: the task has no right to anything else of a CRD.
func (m *Migrator) read(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := m.Extensions.ApiextensionsV1().RESTClient().Get().Resource("customresourcedefinitions").Name(name).SubResource("status").Do(ctx).Into(crd)
	if err != nil {
		return nil, fmt.Errorf("reading the CRD: %w", err)
	}
	return crd, nil
}
