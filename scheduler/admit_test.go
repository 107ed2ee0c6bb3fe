package scheduler

import (
	"math/big"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type admitCase struct {
	line         int
	now, lastEnd Instant
	w            Window
	next         time.Duration
	tentative    bool
	verdict      string
	until        Instant
}

// readAdmitCases reads the table that the C rule is tested against too.
func readAdmitCases(t testing.TB) []admitCase {
	data, err := os.ReadFile("testdata/admit.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases []admitCase
	for i, line := range strings.Split(string(data), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 12 || f[9] != "=>" {
			t.Fatalf("testdata/admit.txt:%d: %q: want 9 fields, =>, 2 fields", i+1, line)
		}
		num := func(s string) int64 {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("testdata/admit.txt:%d: %v", i+1, err)
			}
			return n
		}
		gate := Gate(255)
		for g, s := range gateNames {
			if s == f[0] {
				gate = Gate(g)
			}
		}
		if gate == 255 {
			t.Fatalf("testdata/admit.txt:%d: no gate %q", i+1, f[0])
		}
		cases = append(cases, admitCase{
			line: i + 1, now: Instant(num(f[1])), lastEnd: Instant(num(f[2])),
			w:    Window{gate, Instant(num(f[3])), Instant(num(f[4])), time.Duration(num(f[5])), Instant(num(f[6]))},
			next: time.Duration(num(f[7])), tentative: f[8] == "1",
			verdict: f[10], until: Instant(num(f[11])),
		})
	}
	return cases
}

func TestAdmitTable(t *testing.T) {
	cases := readAdmitCases(t)
	if len(cases) < 40 {
		t.Fatalf("%d cases: want 40 or more", len(cases))
	}
	for _, c := range cases {
		v, until := Admit(c.now, c.lastEnd, c.w, c.next, c.tentative)
		if v.String() != c.verdict || until != c.until {
			t.Errorf("testdata/admit.txt:%d: got %v %d, want %s %d", c.line, v, until, c.verdict, c.until)
		}
	}
}

// admitExact is the rule in numbers without an end, as the reader would write
// it down.
func admitExact(now, lastEnd Instant, w Window, next time.Duration, tentative bool) (Verdict, Instant) {
	n := func(x int64) *big.Int { return big.NewInt(x) }
	sum := func(a, b int64) *big.Int { return new(big.Int).Add(n(a), n(b)) }
	expires := w.Expires
	if expires == 0 {
		expires = Forever
	}
	if w.Gate == GateFree || now >= expires && expires != Forever {
		return Go, 0
	}
	switch w.Gate {
	case GatePaced:
		until := sum(int64(lastEnd), int64(w.Pause))
		if until.Cmp(n(int64(Forever))) > 0 {
			until = n(int64(Forever))
		}
		if n(int64(now)).Cmp(until) >= 0 {
			return Go, 0
		}
		return WaitUntil, min(Instant(until.Int64()), expires)
	case GateWindow:
		if now < w.Open {
			return WaitUntil, min(w.Open, expires)
		}
		if sum(int64(now), int64(max(next, 0))).Cmp(n(int64(w.Close))) <= 0 {
			return Go, 0
		}
	}
	if tentative && w.Gate != GateWindow {
		return Stop, 0
	}
	return WaitUntil, expires
}

func TestAdmitIsExact(t *testing.T) {
	edge := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{
		-1 << 63, -1<<63 + 1, 1<<63 - 1, 1<<63 - 2, 16_000_000}))
	rapid.Check(t, func(t *rapid.T) {
		now, lastEnd := Instant(edge.Draw(t, "now")), Instant(edge.Draw(t, "lastEnd"))
		w := Window{Gate(rapid.IntRange(0, 5).Draw(t, "gate")), Instant(edge.Draw(t, "open")),
			Instant(edge.Draw(t, "close")), time.Duration(edge.Draw(t, "pause")),
			Instant(edge.Draw(t, "expires"))}
		next, tentative := time.Duration(edge.Draw(t, "next")), rapid.Bool().Draw(t, "tentative")
		v, until := Admit(now, lastEnd, w, next, tentative)
		wantV, wantUntil := admitExact(now, lastEnd, w, next, tentative)
		if v != wantV || until != wantUntil {
			t.Fatalf("Admit = %v %d, want %v %d", v, until, wantV, wantUntil)
		}
		if v == WaitUntil && until <= now && until != Forever {
			t.Fatalf("Admit = wait %d at %d: would spin", until, now)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	b.ReportAllocs()
	w := Window{Gate: GateWindow, Open: 11_000_000, Close: 16_000_000}
	var waits int
	for i := range b.N {
		if v, _ := Admit(Instant(i%20_000_000), 0, w, 400_000, i&1 == 0); v != Go {
			waits++
		}
	}
	_ = waits
}
