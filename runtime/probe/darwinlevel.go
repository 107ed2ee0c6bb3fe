package probe

import "fmt"

// pressureLevel makes a share of Darwin's memory pressure level: 1 normal, 2
// warning, 4 critical. The shares stand on either side of what the scheduler
// calls tight, a tenth.
func pressureLevel(level uint32, err error) Reading {
	if err != nil {
		return bad(outcomeOf(err), err.Error())
	}
	switch level {
	case 1:
		return good(0)
	case 2:
		return good(0.2)
	case 4:
		return good(0.5)
	}
	return bad(Absurd, fmt.Sprintf("a memory pressure level of %d, want 1, 2 or 4", level))
}

// thermalLevel makes headroom of the level 0 … 100 that Intel Macs have.
func thermalLevel(level uint32, err error) Reading {
	if err != nil {
		return bad(outcomeOf(err), err.Error())
	}
	return within(float64(level)/100, 0, 1, fmt.Sprintf("a thermal level of %d, want 0 … 100", level))
}
