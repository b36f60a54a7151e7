package app

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger writes to standard error.
func newLogger(format string, verbosity int) (logr.Logger, error) {
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(zapcore.Level(-verbosity))
	config.Sampling = nil
	config.DisableCaller = true
	config.DisableStacktrace = true
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.EncoderConfig.TimeKey = "time"
	config.EncoderConfig.EncodeLevel = encodeLevel
	if format == "console" {
		config.Encoding = "console"
	}
	z, err := config.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("building the logger: %w", err)
	}
	return zapr.NewLogger(z), nil
}

// encodeLevel names the levels below info, which are numbers of verbosity, debug.
func encodeLevel(l zapcore.Level, e zapcore.PrimitiveArrayEncoder) {
	if l < zapcore.InfoLevel {
		e.AppendString(zapcore.DebugLevel.String())
		return
	}
	e.AppendString(l.String())
}

// identity tells this process from all other replicas, those of an earlier life included.
func identity(unique string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + unique
}
