// SPDX-License-Identifier: MIT

module htw/timingwheel

go 1.19
