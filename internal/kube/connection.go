package kube

import (
	"errors"
	"io"
	"net"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// IsLost says whether a request got no answer, as opposed to an answer that is an error.
func IsLost(err error) bool {
	var network net.Error
	var address *url.Error
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsTimeout(err) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &network) || errors.As(err, &address)
}
