// Package webhook serves webhooks to the API server: TLS from a Secret that may change at any moment, limits that hostile
// bodies cannot get past, and a shutdown that loses no request. What the webhooks decide is elsewhere.
package webhook
