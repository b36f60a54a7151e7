package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// longestComponent is the longest part of a name, by the rules of the database.
const longestComponent = 14

// LoadZone finds a time zone by its name in the database. What is no name there is refused, whatever files it may lead to.
func LoadZone(name string) (*time.Location, error) {
	switch {
	case name == "":
		return nil, errors.New("must not be empty")
	case strings.EqualFold(name, "Local"):
		return nil, errors.New("must be the name of a time zone, such as Europe/Berlin, and not Local")
	}
	for part := range strings.SplitSeq(name, "/") {
		if !isComponent(part) {
			return nil, fmt.Errorf("%q is not part of the name of a time zone", part)
		}
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not in the time-zone database", name)
	}
	return zone, nil
}

func isComponent(part string) bool {
	strange := strings.IndexFunc(part, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("._-+", r)
	})
	return part != "" && part != "." && part != ".." && part[0] != '-' && len(part) <= longestComponent && strange < 0
}
