package localcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flotilla-k8s/flotilla/apis/client/clientset/versioned"
)

// Options say which cluster is wanted.
type Options struct {
	// Dir holds the cluster's files. Clusters of different folders run side by side.
	Dir string
	// SimNodes is the number of simulated nodes.
	SimNodes int
	// Without names controllers of kube-controller-manager that are not to run.
	Without []string
}

// Cluster is a running API server with the product's CRDs and roles installed.
type Cluster struct {
	// Root is the checkout.
	Root string
	// Dir holds the cluster's files: kubeconfig, logs, audit log.
	Dir string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	Config   *rest.Config
	Kube     kubernetes.Interface
	Flotilla versioned.Interface
}

// Scratch is a folder for files that go with the cluster.
func (c *Cluster) Scratch() string { return filepath.Join(c.Dir, "scratch") }

// Root returns the checkout that the working directory is in.
func Root() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

// Up starts a cluster, or joins the one that already runs in that folder, and installs CRDs and roles.
func Up(o Options) (*Cluster, error) {
	root := Root()
	c := &Cluster{Root: root, Dir: o.Dir}
	c.Kubeconfig = filepath.Join(c.Dir, "kubeconfig")
	args := []string{"up", "--dir", c.Dir, "--sim-nodes", fmt.Sprint(o.SimNodes)}
	if len(o.Without) > 0 {
		args = append(args, "--without-controllers", strings.Join(o.Without, ","))
	}
	if err := c.run(args...); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, c.install()
}

// Down stops the cluster and removes its files.
func (c *Cluster) Down() error {
	return c.run("down", "--dir", c.Dir)
}

// run is bin/cluster, with its progress shown.
func (c *Cluster) run(args ...string) error {
	cmd := exec.Command(filepath.Join(c.Root, "bin", "cluster"), args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("bin/cluster %s (is it built? run make build): %w", args[0], err)
	}
	return nil
}

func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Kubeconfig, err)
	}
	// The server is the limiter: a test that throttles itself measures itself.
	config.QPS = -1
	c.Config = config
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("building the core client: %w", err)
	}
	if c.Flotilla, err = versioned.NewForConfig(config); err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	return nil
}

// install applies what every component needs: the namespace, CRDs, and the roles as shipped.
func (c *Cluster) install() error {
	if out, err := c.Kubectl("create", "namespace", "flotilla-system"); err != nil && !strings.Contains(out, "AlreadyExists") {
		return fmt.Errorf("creating the namespace: %w: %s", err, out)
	}
	args := []string{"apply", "--server-side", "--force-conflicts", "-f", filepath.Join(c.Root, "deploy", "crds", "apps.kruise.io_*.yaml")}
	roles, err := filepath.Glob(filepath.Join(c.Root, "deploy", "*", "rbac.yaml"))
	if err != nil {
		return fmt.Errorf("listing roles: %w", err)
	}
	for _, r := range roles {
		args = append(args, "-f", r)
	}
	if out, err := c.Kubectl(args...); err != nil {
		return fmt.Errorf("installing CRDs and roles: %w: %s", err, out)
	}
	out, err := c.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "app.kubernetes.io/part-of=flotilla")
	if err != nil {
		return fmt.Errorf("waiting for CRDs: %w: %s", err, out)
	}
	return nil
}

// Kubectl runs the kubectl of the cluster's build as administrator and returns its whole output.
func (c *Cluster) Kubectl(args ...string) (string, error) {
	return c.KubectlInput("", args...)
}

// KubectlInput is Kubectl with text on standard input.
func (c *Cluster) KubectlInput(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
