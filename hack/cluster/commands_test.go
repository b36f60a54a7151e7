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
		"a flag of no command": {"--nodes"},
		"no folder":            {"down"},
		"no number":            {"up", "--dir", "x", "--sim-nodes", "abc"},
		"neither yes nor no":   {"up", "--dir", "x", "--real-node=maybe"},
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
		usage := (*usageError)(nil)
		if !errors.As(err, &usage) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, says, _ := strings.Cut(err.Error(), "allowed: "); !strings.HasPrefix(err.Error(), "cluster") || says == "" {
			t.Errorf("%s: it says neither where nor what is allowed: %v", name, err)
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
