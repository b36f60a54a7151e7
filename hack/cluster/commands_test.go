package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestWrongCommandLinesAreUsageErrorsOfOneLine(t *testing.T) {
	for name, args := range map[string][]string{
		"no command":           {},
		"an unknown command":   {"start"},
		"an unknown flag":      {"up", "--nodes", "3"},
		"no folder":            {"down"},
		"too many nodes":       {"up", "--dir", "x", "--sim-nodes", "99999"},
		"a negative number":    {"up", "--dir", "x", "--sim-nodes", "-1"},
		"a privileged port":    {"up", "--dir", "x", "--api-port", "80"},
		"an argument too much": {"status", "x"},
		"nothing to run":       {"run", "--dir", "x", "--name", "y"},
		"a command before --":  {"run", "--dir", "x", "--name", "y", "/bin/true"},
		"a reserved name":      {"run", "--dir", "x", "--name", "etcd", "--", "/bin/true"},
	} {
		command := newCommand()
		command.SetArgs(args)
		command.SetOut(&bytes.Buffer{})
		err := command.ExecuteContext(t.Context())
		if usage := (*usageError)(nil); !errors.As(err, &usage) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARealNodeIsAnnouncedButNotThereYet(t *testing.T) {
	command := newCommand()
	command.SetArgs([]string{"up", "--dir", t.TempDir(), "--real-node"})
	err := command.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "not available yet") {
		t.Error(err)
	}
}
