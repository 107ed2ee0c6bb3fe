package scheduler

import "math/rand/v2"

// stream is a stimulus: each call gives the next value. Streams add up, so a
// scenario reads as what the game does. None uses transcendental functions,
// whose last bits differ between machines; goldens must not.
type stream func() float64

// constant is always c.
func constant(c float64) stream { return func() float64 { return c } }

// step is 0 for n values, then height.
func step(height float64, n int) stream { return constant(height).delay(n) }

// ramp rises from 0 to height in n values and stays.
func ramp(height float64, n int) stream {
	i := 0
	return func() float64 {
		v := height * float64(i) / float64(n)
		i = min(i+1, n)
		return v
	}
}

// oscillate is a triangle between -amplitude and amplitude.
func oscillate(amplitude float64, period int) stream {
	i := 0
	return func() float64 {
		x := float64(4*i) / float64(period) // 0 … 4
		i = (i + 1) % period
		if x <= 2 {
			return amplitude * (x - 1)
		}
		return amplitude * (3 - x)
	}
}

// random is uniform in [-amplitude, amplitude).
func random(amplitude float64, seed uint64) stream {
	r := rand.New(rand.NewPCG(seed, 0))
	return func() float64 { return (r.Float64() - 0.5) * 2 * amplitude }
}

// outlier is 0 but for one value, the nth.
func outlier(height float64, n int) stream {
	i := 0
	return func() float64 {
		i++
		if i == n+1 {
			return height
		}
		return 0
	}
}

// chance is height with probability p, else 0.
func chance(p, height float64, seed uint64) stream {
	r := rand.New(rand.NewPCG(seed, 1))
	return func() float64 {
		if r.Float64() < p {
			return height
		}
		return 0
	}
}

// delay puts n zeros in front.
func (f stream) delay(n int) stream {
	return func() float64 {
		if n > 0 {
			n--
			return 0
		}
		return f()
	}
}

// sum adds others.
func (f stream) sum(others ...stream) stream {
	return func() float64 {
		v := f()
		for _, g := range others {
			v += g()
		}
		return v
	}
}

// limit holds values inside bounds.
func (f stream) limit(low, high float64) stream {
	return func() float64 { return min(max(f(), low), high) }
}
