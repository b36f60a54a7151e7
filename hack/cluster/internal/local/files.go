package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/binaries"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/pki"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/sim"
	"github.com/flotilla-k8s/flotilla/hack/cluster/internal/state"
)

// build names everything that makes a running cluster behave as it does.
func build(set binaries.Set) string { return set.Key + "-" + sim.Version() }

// writeFiles writes what the components read at start.
func (l layout) writeFiles(plan portPlan, set binaries.Set) error {
	for _, name := range kubeComponents {
		if err := link(set.Kube, l.bin(name)); err != nil {
			return err
		}
	}
	if err := link(set.Kwok, l.bin(kwok)); err != nil {
		return err
	}
	if err := l.writeCredentials(plan.server(), time.Now()); err != nil {
		return err
	}
	return errors.Join(
		state.WriteFile(l.config("audit-policy.yaml"), []byte(auditPolicy), 0o600),
		state.WriteFile(l.config("kwok.yaml"), sim.Config(), 0o600),
	)
}

func link(target, path string) error {
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return fmt.Errorf("linking %s: %w", path, err)
	}
	return os.Symlink(target, path)
}

func (l layout) writeCredentials(server string, now time.Time) error {
	authority, own, err := pki.New(now)
	if err != nil {
		return err
	}
	serving, err := authority.Serving(now)
	if err != nil {
		return err
	}
	private, public, err := pki.NewKey()
	if err != nil {
		return fmt.Errorf("making the key of ServiceAccounts: %w", err)
	}
	files := map[string][]byte{
		"ca.crt": own.Cert, "ca.key": own.Key,
		"apiserver.crt": serving.Cert, "apiserver.key": serving.Key,
		"sa.key": private, "sa.pub": public,
	}
	for name, content := range files {
		if err := state.WriteFile(l.config(name), content, 0o600); err != nil {
			return err
		}
	}
	for _, a := range accounts {
		pair, err := authority.Client(a.user, a.groups, now)
		if err != nil {
			return err
		}
		path := l.config(a.component + ".kubeconfig")
		if a.component == "admin" {
			path = l.kubeconfig()
		}
		if err := writeKubeconfig(path, server, a.user, authority.PEM, pair); err != nil {
			return err
		}
	}
	return nil
}

func describe(o state.Options) string {
	parts := []string{fmt.Sprintf("--sim-nodes %d", o.SimNodes)}
	if o.APIPort != 0 {
		parts = append(parts, fmt.Sprintf("--api-port %d", o.APIPort))
	}
	if len(o.Without) > 0 {
		parts = append(parts, "--without-controllers "+strings.Join(o.Without, ","))
	}
	return strings.Join(parts, " ")
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
