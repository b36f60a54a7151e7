package state

import (
	"fmt"
	"os"
	"syscall"
)

// Lock takes the exclusive lock of a file or directory that exists, and calls wait once if another process holds it.
// The system releases the lock when the process ends, however it ends.
func Lock(path string, wait func()) (unlock func(), err error) {
	for {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if err := flock(f, wait); err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The holder may have removed it and another may have made a new one meanwhile: lock that one then.
		if same(f, path) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
}

func flock(f *os.File, wait func()) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != syscall.EWOULDBLOCK {
		return err
	}
	wait()
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			return err
		}
	}
}

func same(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	// A path that is gone is reported by the next attempt to open it.
	return err == nil && os.SameFile(held, now)
}
