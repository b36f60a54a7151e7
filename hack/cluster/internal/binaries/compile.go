package binaries

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// KubernetesVersion is the version that the control plane reports; go.mod requires its modules.
const KubernetesVersion = "1.37.2"

const kwokPackage = "sigs.k8s.io/kwok/cmd/kwok"

// buildFlags are those of both programs. kubectl refuses to talk to a server whose version it cannot parse.
func buildFlags() []string {
	const version = "k8s.io/component-base/version."
	major, minor, _ := strings.Cut(KubernetesVersion, ".")
	minor, _, _ = strings.Cut(minor, ".")
	ldflags := fmt.Sprintf("-s -w -X %[1]sgitVersion=v%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s -X %[1]sgitTreeState=clean",
		version, KubernetesVersion, major, minor)
	return []string{"-trimpath", "-ldflags", ldflags}
}

// program is one binary: a package in one of the two modules.
type program struct {
	label, module, pkg, output string
}

func compile(ctx context.Context, sources fs.FS, set Set, dir string, out io.Writer) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("compiling Kubernetes needs Go: install it from https://go.dev/dl and put it in PATH: %w", err)
	}
	src := filepath.Join(dir, "src")
	if err := extract(sources, src); err != nil {
		return err
	}
	// What is left of the sources is overwritten by the next build.
	defer func() { _ = os.RemoveAll(src) }()
	fmt.Fprintln(out, "Compiling Kubernetes and the node simulator: 10 to 15 minutes on two cores the first time, seconds afterwards.")
	programs := []program{
		{label: "Kubernetes " + KubernetesVersion, module: src, pkg: "./kube", output: set.Kube},
		{label: "node simulator", module: filepath.Join(src, "kwok"), pkg: kwokPackage, output: set.Kwok},
	}
	for _, p := range programs {
		if err := p.build(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// extract writes the sources as two modules that Go can build.
func extract(sources fs.FS, to string) error {
	// A build that was killed may have left some.
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("clearing the build folder: %w", err)
	}
	return fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, place(path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}

func place(path string) string {
	switch path {
	case "kwok.mod":
		return "kwok/go.mod"
	case "kwok.sum":
		return "kwok/go.sum"
	}
	return path
}

// build compiles to a temporary name first: a binary that exists is a whole one.
func (p program) build(ctx context.Context, out io.Writer) error {
	bar := newBar(p.label, out)
	defer bar.close()
	bar.total(p.countPackages(ctx))
	tmp := p.output + ".tmp"
	args := append([]string{"build", "-v", "-o", tmp}, buildFlags()...)
	cmd := p.goCommand(ctx, append(args, p.pkg)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("compiling %s: %w", p.label, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("compiling %s: %w", p.label, err)
	}
	complaints := follow(stderr, bar)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("compiling %s (if the module proxy or the disk was the reason, run the same command again): %w\n%s",
			p.label, errors.Join(err, context.Cause(ctx)), strings.Join(complaints, "\n"))
	}
	if err := os.Rename(tmp, p.output); err != nil {
		return fmt.Errorf("compiling %s: %w", p.label, err)
	}
	bar.finish()
	return nil
}

// follow feeds the bar from the output of `go build -v`, which names a package per line, and returns what else it says.
func follow(output io.Reader, bar *bar) []string {
	const keep = 30
	var rest []string
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			bar.note("downloading " + strings.TrimPrefix(line, "go: downloading "))
		case strings.HasPrefix(line, "#") || strings.ContainsAny(line, " \t"):
			rest = append(rest, line)
		default:
			bar.step(line)
		}
	}
	return rest[max(0, len(rest)-keep):]
}

// countPackages is the length of the bar; 0 if Go cannot tell, and then the build itself says why.
func (p program) countPackages(ctx context.Context) int {
	list, err := p.goCommand(ctx, "list", "-deps", p.pkg).Output()
	if err != nil {
		return 0
	}
	return strings.Count(string(list), "\n")
}

func (p program) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = p.module
	// The user's workspace and flags are about other modules.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	return cmd
}
