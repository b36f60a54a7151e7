package localcluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// MemoryOf reads a line of a process's status, such as "VmHWM:", in bytes.
func MemoryOf(pid int, field string) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the process's memory: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the process's memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, field)
}
