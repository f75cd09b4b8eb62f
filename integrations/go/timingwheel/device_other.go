// SPDX-License-Identifier: MIT

//go:build !linux || !(386 || amd64 || arm || arm64 || loong64 || riscv64 || s390x)

package timingwheel

import (
	"fmt"
	"runtime"
	"time"
)

func openDevice(exact bool) (backend, time.Duration, error) {
	return nil, 0, fmt.Errorf("%w on %s/%s", errNoDevice, runtime.GOOS, runtime.GOARCH)
}
