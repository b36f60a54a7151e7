// Package ports chooses free ports of the loopback address.
//
// Between the choice and the moment a component listens, another process may take the port; whoever starts the
// component looks for that in its log (Taken) and starts anew with other ports.
package ports

import (
	"fmt"
	"net"
	"strings"
)

// Free returns n different ports that are free now.
func Free(n int) ([]int, error) {
	var chosen []int
	for range n {
		// All listeners stay open until the last port is chosen, so that none is chosen twice.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close()
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("looking for a free port: %s is no TCP address", l.Addr())
		}
		chosen = append(chosen, address.Port)
	}
	return chosen, nil
}

// Check returns an error if the port cannot be listened on.
func Check(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return l.Close()
}

// Taken says whether the output of a component complains that its port is in use.
func Taken(output string) bool {
	return strings.Contains(output, "address already in use")
}
