// SPDX-License-Identifier: MIT

package main

import (
	"time"

	"a-seed-e8171de7.example/htw/integrations/go/timingwheel"
)

func init() {
	wheels := systems[:0:0]
	for _, b := range []timingwheel.Backend{timingwheel.Device, timingwheel.Process} {
		b := b
		wheels = append(wheels, systems[0])
		wheels[len(wheels)-1].name = "this package, " + b.String()
		wheels[len(wheels)-1].open = func() system {
			tw, err := timingwheel.OpenBackend(b, time.Millisecond, 20)
			if err != nil {
				panic(err)
			}
			tw.Start()
			return func(d time.Duration, f func()) timer { return tw.AfterFunc(d, f) }
		}
	}
	systems = append(wheels, systems...)
}
