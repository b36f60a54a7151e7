package harness

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// Options say what cluster a test binary needs.
type Options struct {
	// Name keeps clusters of different test binaries apart. Required.
	Name string
	// SimNodes is the number of simulated nodes.
	SimNodes int
	// Parallel is how many tests run at a time: most of them wait, so it may be more than there are processors. 0: as many as
	// go test has it. The flag -parallel wins.
	Parallel int
}

// keepVariable leaves the cluster running at the end, for a look at it.
const keepVariable = "FLOTILLA_KEEP_CLUSTER"

// Cluster is the cluster that all tests of a binary share.
type Cluster struct {
	*localcluster.Cluster
}

// Main runs the tests of one binary on a cluster of their own and returns the exit code.
// shared receives the cluster before the first test runs.
func Main(m *testing.M, o Options, shared **Cluster) int {
	dir := filepath.Join(localcluster.Root(), ".cluster", o.Name)
	c, err := localcluster.Up(localcluster.Options{Dir: dir, SimNodes: o.SimNodes})
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		return 1
	}
	*shared = &Cluster{Cluster: c}
	if err := atOnce(o.Parallel); err != nil {
		fmt.Fprintf(os.Stderr, "tests at a time: %v\n", err)
		return 1
	}
	code := m.Run()
	if os.Getenv(keepVariable) != "" {
		fmt.Fprintf(os.Stderr, "The cluster is left running: export KUBECONFIG=%s\n", c.Kubeconfig)
		return code
	}
	if err := c.Down(); err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		return 1
	}
	return code
}

// atOnce sets how many tests run at a time, unless somebody has said so.
func atOnce(n int) error {
	const name = "test.parallel"
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == name })
	if n == 0 || said {
		return nil
	}
	return flag.Set(name, strconv.Itoa(n))
}
