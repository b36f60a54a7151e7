// Package harness runs the product as a user would: a real API server with simulated nodes, the
// shipped CRDs and roles, and the controllers as processes of their own.
//
// A test binary calls Main once: it brings up one cluster that all tests share. Each test makes a
// namespace and starts the controllers it needs for that namespace alone, so tests run side by side
// and may kill their controller at any moment. Nothing sleeps: Eventually waits for a condition
// with a deadline and shows the last answer when it does not come.
package harness
