package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// File is the name of the state file in the cluster's directory.
const File = "cluster.json"

// Process is a component that was started for the cluster.
type Process struct {
	Name string `json:"name"`
	Pid  int    `json:"pid"`
	// Start is the system's own notation of the time at which the process began.
	Start string `json:"start"`
	Log   string `json:"log"`
}

// Cluster is the content of the state file.
type Cluster struct {
	// Complete is false until every component has answered once.
	Complete bool      `json:"complete"`
	Created  time.Time `json:"created"`
	Server   string    `json:"server,omitempty"`
	// Build names the binaries and stages that it runs; another build starts it anew.
	Build     string    `json:"build"`
	Options   Options   `json:"options"`
	Processes []Process `json:"processes"`
}

// Options are what a cluster was started with. A cluster is joined only with the same ones.
type Options struct {
	SimNodes int `json:"simNodes"`
	// APIPort is the port that was asked for; 0 took any.
	APIPort int `json:"apiPort,omitempty"`
	// Without are the controllers of kube-controller-manager that do not run, sorted.
	Without []string `json:"without,omitempty"`
}

// Find returns the process of that name, or nil.
func (c *Cluster) Find(name string) *Process {
	for i := range c.Processes {
		if c.Processes[i].Name == name {
			return &c.Processes[i]
		}
	}
	return nil
}

// Put records a process, in place of an earlier one of the same name.
func (c *Cluster) Put(p Process) {
	if old := c.Find(p.Name); old != nil {
		*old = p
		return
	}
	c.Processes = append(c.Processes, p)
}

// Load reads the state of dir. A directory without one gives nil.
func Load(dir string) (*Cluster, error) {
	raw, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dir, File), err)
	}
	return c, nil
}

// Save replaces the state of dir in one step: a reader sees the old or the new state, never half of one.
func (c *Cluster) Save(dir string) error {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	return WriteFile(filepath.Join(dir, File), append(raw, '\n'), 0o600)
}

// WriteFile replaces a file in one step.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	// Gone already when the rename succeeded.
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}
