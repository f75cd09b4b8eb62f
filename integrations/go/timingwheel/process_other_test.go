// SPDX-License-Identifier: MIT

//go:build !linux || !cgo || nolibhtw

package timingwheel

import "testing"

func setProcessLimit(t *testing.T, n uint64) {
	t.Fatal("there are no timers in the process")
}
