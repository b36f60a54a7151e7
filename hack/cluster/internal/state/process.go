package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// StartOf returns the system's notation of when a process began, and false if there is no such process or
// it has ended and only waits to be reaped.
func StartOf(pid int) (string, bool) {
	if runtime.GOOS != "linux" {
		out, err := exec.Command("ps", "-o", "lstart=", "-p", fmt.Sprint(pid)).Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	return parseStat(string(raw))
}

// parseStat takes the start time (field 22) out of /proc/PID/stat. The command in field 2 is in parentheses and
// may hold anything, so the fields are counted from its end.
func parseStat(stat string) (string, bool) {
	_, rest, ok := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	const processState, startTime = 0, 19
	if !ok || len(fields) <= startTime || fields[processState] == "Z" || fields[processState] == "X" {
		return "", false
	}
	return fields[startTime], true
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Alive says whether the very process that was recorded still runs.
func (p Process) Alive() bool {
	start, ok := StartOf(p.Pid)
	return ok && start == p.Start
}

// Stop ends the processes in order, all at once: SIGTERM, and SIGKILL for those that are left after the grace period.
func Stop(ctx context.Context, processes []Process, grace time.Duration) error {
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.signal(syscall.SIGTERM))
	}
	if waitGone(ctx, processes, grace) {
		return errors.Join(errs...)
	}
	for _, p := range processes {
		errs = append(errs, p.signal(syscall.SIGKILL))
	}
	if !waitGone(ctx, processes, grace) {
		errs = append(errs, fmt.Errorf("still running after SIGKILL: %s", strings.Join(aliveNames(processes), ", ")))
	}
	return errors.Join(errs...)
}

func (p Process) signal(s syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(p.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending %s (pid %d): %w", p.Name, p.Pid, err)
	}
	return nil
}

func waitGone(ctx context.Context, processes []Process, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(aliveNames(processes)) > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

func aliveNames(processes []Process) []string {
	var names []string
	for _, p := range processes {
		if p.Alive() {
			names = append(names, p.Name)
		}
	}
	return names
}
