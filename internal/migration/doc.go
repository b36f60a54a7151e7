// Package migration has every stored object of our kinds written once in the storage version, without changing it, and
// trims the list of versions that a CRD's objects may be stored in. Until then even reads in the storage version need the
// conversion webhook. A migration that is interrupted is begun anew: what has been written stays as it is.
package migration
