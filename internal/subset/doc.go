// Package subset is the arithmetic of a UnitedDeployment's subsets: what their shares come to, and which Pod template each of
// them makes of the common one. Everything here is pure.
package subset
