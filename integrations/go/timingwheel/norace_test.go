// SPDX-License-Identifier: MIT

//go:build !race

package timingwheel

const raceEnabled = false
