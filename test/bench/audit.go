package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// writes counts a user's requests that change something: "create pods", "patch pods/status".
type writes map[string]int

func (w writes) total() int {
	n := 0
	for _, count := range w {
		n += count
	}
	return n
}

type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

var writeVerbs = map[string]bool{"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true}

// auditSize marks where in the log a measurement begins.
func auditSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("audit log: %w", err)
	}
	return info.Size(), nil
}

// auditWrites counts the writes of one user since that mark, and how many of them met a conflict.
// Leases and events are not part of the work and are left out.
func auditWrites(path string, from int64, user string) (w writes, conflicts int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	w = writes{}
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return w, conflicts, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("audit log: %w", err)
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, 0, fmt.Errorf("audit log: %w", err)
		}
		if !strings.HasSuffix(e.User.Username, ":"+user) || !writeVerbs[e.Verb] || e.ObjectRef.Resource == "leases" || e.ObjectRef.Resource == "events" {
			continue
		}
		if e.ResponseStatus.Code == 409 {
			conflicts++
		}
		what := e.Verb + " " + e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		w[what]++
	}
}
