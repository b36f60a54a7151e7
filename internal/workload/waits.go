package workload

import "fmt"

// Waits puts in a sentence what somebody else has to do before a workload can go on: the first of it, and how much more there
// is. None of it is a failure, so that no other condition and no event shows it.
func Waits(what []string) string {
	switch len(what) {
	case 0:
		return ""
	case 1:
		return what[0]
	}
	return fmt.Sprintf("%s (and %d more)", what[0], len(what)-1)
}
