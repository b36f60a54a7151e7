// Package apps has the API group apps.kruise.io. Its packages are the versions and what they share.
package apps
