// Package bubbles lets client-go's reflectors and informers run in a bubble of testing/synctest.
package bubbles

import "time"

// NoResync is a resync period that no test lasts for. It is needed in a bubble with client-go before 0.35, whose
// reflector receives from a package-level channel if the period is 0. That channel is outside the bubble, in which time
// then stands still. Since 0.35 the period may be 0.
const NoResync = 100 * 365 * 24 * time.Hour
