// SPDX-License-Identifier: MIT

//go:build !linux || !cgo || nolibhtw

package timingwheel

import (
	"errors"
	"time"
)

const hasProcess = false

func openProcess(exact bool) (backend, time.Duration, error) {
	return nil, 0, errors.New("no timers in the process: that needs Linux, and a program built with cgo " +
		"and without the tag nolibhtw")
}
