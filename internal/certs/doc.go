// Package certs keeps the certificates of the webhooks: it makes authorities and serving certificates, decides when each
// is replaced, and builds the patches that publish the authorities. All of that is pure; the shell around it reads the
// API server and carries the decisions out.
package certs
