package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/flotilla-k8s/flotilla/test/localcluster"
)

// clockTicks is the kernel's USER_HZ, which is 100 on every Linux that Go supports.
const clockTicks = 100

// cpu is the processor time that a process has used so far.
func cpu(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the process's times: %w", err)
	}
	// The command's name may contain anything; the fields after its closing bracket do not.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	const utime, stime = 11, 12
	total := int64(0)
	for _, i := range []int{utime, stime} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the process's times: %w", err)
		}
		total += ticks
	}
	return time.Duration(total) * time.Second / clockTicks, nil
}

// peakMemory is the most memory a process has had since forgetPeak, in bytes.
func peakMemory(pid int) (int64, error) { return localcluster.MemoryOf(pid, "VmHWM:") }

// forgetPeak starts a new measurement of the peak.
func forgetPeak(pid int) error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("resetting the peak memory: %w", err)
	}
	return nil
}
