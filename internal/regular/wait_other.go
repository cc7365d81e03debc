//go:build !unix

package regular

// noWait is for named pipes among files, which only Unix has.
const noWait = 0
