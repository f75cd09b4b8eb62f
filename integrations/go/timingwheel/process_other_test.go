// SPDX-License-Identifier: MIT

//go:build !cgo

package timingwheel

import "testing"

func setProcessLimit(t *testing.T, n uint64) {
	t.Fatal("there are no timers in the process")
}
