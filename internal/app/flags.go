package app

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// PlainFlagError says of a flag's value that cannot be read what it must be, instead of how reading it failed.
func PlainFlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	allowed := ""
	switch flag.Value.Type() {
	case "bool":
		allowed = "true or false"
	case "int":
		allowed = "an integer"
	case "float32":
		allowed = "a number"
	case "duration":
		allowed = "a duration with its unit, such as 30s or 5m"
	default:
		return err
	}
	return fmt.Errorf("--%s is %q: must be %s", flag.Name, invalid.GetValue(), allowed)
}
