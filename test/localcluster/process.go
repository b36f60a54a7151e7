package localcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// Process is a controller that runs as its own ServiceAccount.
type Process struct {
	// Log is the file that has its output.
	Log string

	cmd  *exec.Cmd
	done chan struct{}
	// err is written before done is closed.
	err error
}

// Start runs a binary of bin/ with its output in dir.
func (c *Cluster) Start(component, dir string, args ...string) (*Process, error) {
	return c.StartFile(c.binary(component), dir, args...)
}

// StartDetached runs a binary of bin/ that outlives the caller and ends with the cluster. One that an
// earlier caller started under the same name is ended first.
func (c *Cluster) StartDetached(component string, args ...string) error {
	return c.run(append([]string{"run", "--dir", c.Dir, "--name", component, "--", c.binary(component)}, args...)...)
}

func (c *Cluster) binary(component string) string { return filepath.Join(c.Root, "bin", component) }

// StartFile runs any executable with its output in dir.
func (c *Cluster) StartFile(path, dir string, args ...string) (*Process, error) {
	component := filepath.Base(path)
	log, err := os.CreateTemp(dir, component+"-*.log")
	if err != nil {
		return nil, fmt.Errorf("creating the log file: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	// It must not outlive a test binary that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s (is it built? run make build): %w", component, err)
	}
	p := &Process{Log: log.Name(), cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the exit code of a process that has ended.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Kill ends the process as a crash would (SIGKILL) and waits until it is gone.
func (p *Process) Kill() {
	// It may have ended by itself; then there is nothing to signal.
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop ends the process in order (SIGTERM), and by force if it has not ended within the grace period.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		// Some processes leave the signal to the system, which is in order too.
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGTERM {
			return nil
		}
		return p.err
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("still running %s after SIGTERM", grace)
	}
}

// Tail returns the last lines of the output.
func (p *Process) Tail(n int) string {
	raw, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// KubeconfigFor writes a kubeconfig that acts as the component's ServiceAccount.
func (c *Cluster) KubeconfigFor(ctx context.Context, component, dir string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(6 * time.Hour / time.Second))}}
	token, err := c.Kube.CoreV1().ServiceAccounts("flotilla-system").CreateToken(ctx, component, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token for %s: %w", component, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{
		Server: c.Config.Host, CertificateAuthority: c.Config.CAFile,
		CertificateAuthorityData: c.Config.CAData, InsecureSkipTLSVerify: c.Config.Insecure,
	}
	config.AuthInfos[component] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: component}
	config.CurrentContext = "local"
	path := filepath.Join(dir, component+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	return path, nil
}
