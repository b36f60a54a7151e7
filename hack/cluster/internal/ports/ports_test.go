package ports

import (
	"net"
	"testing"
)

func TestFreePortsAreDifferentAndCanBeTaken(t *testing.T) {
	free, err := Free(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range free {
		if seen[p] {
			t.Errorf("port %d twice", p)
		}
		seen[p] = true
	}
}

func TestCheckSeesATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = Check(l.Addr().(*net.TCPAddr).Port)
	if err == nil || !Taken(err.Error()) {
		t.Errorf("taken port: %v", err)
	}
}
