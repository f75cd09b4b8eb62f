// SPDX-License-Identifier: MIT

//go:build cgo && !nolibhtw

package timingwheel

import "testing"

func setProcessLimit(t *testing.T, n uint64) {
	before := processLimit
	t.Cleanup(func() { processLimit = before })
	processLimit = n
}
