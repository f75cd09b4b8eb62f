// SPDX-License-Identifier: MIT

module a-seed-e8171de7.example/htw/integrations/go/timingwheel

go 1.19
