// SPDX-License-Identifier: MIT

//go:build !linux || !(386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x)

package timingwheel

import (
	"errors"
	"time"
)

const flagKeep = 0

// device cannot be opened here.
type device struct {
	tick time.Duration
}

func openDevice() (*device, error) {
	return nil, errors.New("no /dev/htw on this operating system or architecture")
}

func (*device) close() {}

func (*device) add(ns, slack, cookie uint64, flags uint32) (uint64, error) {
	return 0, errUnknown
}

func (*device) cancel(id uint64) error { return errUnknown }

func (*device) rearm(id, ns uint64) error { return errUnknown }

func (*device) read() ([]event, error) { return nil, errClosed }
