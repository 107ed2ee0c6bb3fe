package probe

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/scheduler"
)

// Groups of sources, by how quickly what they say changes.
const (
	tick = 500 * time.Millisecond // pressure and memory: a level that loads moves both in seconds

	heatEvery = 1 * time.Second // sensors themselves lag by a second or more
	powerTime = 5 * time.Second // a battery driver may ask its chip over a slow bus

	// signalsKept is how long a reading counts when none follows, because a driver
	// does not answer: facts that are older say nothing of heat.
	signalsKept = 10 * time.Second

	// closeWait is how long Close waits for a reading that runs. They take some
	// milliseconds; a driver that hangs would hold up the end of the game.
	closeWait = time.Second
)

// Due says which groups a reading is for.
type Due struct{ Pressure, Heat, Power bool }

// All groups.
var All = Due{true, true, true}

// Source reads a machine. Read completes the last snapshot by what is due. Call
// from one goroutine at a time.
type Source interface {
	Read(now int64, due Due) Snapshot
}

// Read implements Source. now is ns of any monotonic clock.
func (t *Tree) Read(now int64, due Due) Snapshot {
	s := &t.now
	if due.Pressure {
		s.Pressure, s.Memory = t.pressures(now), t.memory()
	}
	if due.Heat {
		s.Zones, s.Headroom, s.critical = t.heat()
		s.Power, s.Energy = t.packages(now)
		s.Clocks = t.clocks()
	}
	if due.Power {
		s.Battery, s.source = t.supplies()
		s.Source = s.source.String()
	}
	return *s
}

// PollerConfig sets a Poller up.
type PollerConfig struct {
	Source Source       // nil: this machine
	Now    func() int64 // monotonic ns; nil: the computer's clock

	// Headroom asks the system for its own thermal headroom, once a second, such
	// as Android's AThermal_getThermalHeadroom; nil: from the zones.
	Headroom func() float64

	// Tick says when to read; nil: twice a second. Tests send on it.
	Tick <-chan time.Time
}

// Poller reads on a goroutine of its own. Signals and Snapshot are safe for
// concurrent use and never wait.
type Poller struct {
	cfg      PollerConfig
	headroom Headroom
	heatAt   int64
	powerAt  int64
	begun    bool
	last     atomic.Pointer[polled]
	quit     chan struct{}
	done     chan struct{}
	once     sync.Once
}

type polled struct {
	at       int64
	snapshot Snapshot
	signals  scheduler.HostSignals
}

// Start begins to poll. Close ends it.
func Start(cfg PollerConfig) *Poller {
	p := newPoller(cfg)
	go p.run()
	return p
}

func newPoller(cfg PollerConfig) *Poller {
	if cfg.Source == nil {
		cfg.Source = Host()
	}
	if cfg.Now == nil {
		begin := time.Now()
		cfg.Now = func() int64 { return int64(time.Since(begin)) }
	}
	p := &Poller{cfg: cfg, quit: make(chan struct{}), done: make(chan struct{})}
	p.last.Store(&polled{})
	return p
}

func (p *Poller) run() {
	defer close(p.done)
	due := p.cfg.Tick
	if due == nil {
		t := time.NewTicker(tick)
		defer t.Stop()
		due = t.C
	}
	for {
		p.poll(p.cfg.Now())
		select {
		case <-p.quit:
			return
		case <-due:
		}
	}
}

// poll reads what is due. A tick that comes late is late, never made up for.
func (p *Poller) poll(now int64) {
	due := Due{Pressure: true}
	if !p.begun || now-p.heatAt >= int64(heatEvery) {
		due.Heat, p.heatAt = true, now
	}
	if !p.begun || now-p.powerAt >= int64(powerTime) {
		due.Power, p.powerAt = true, now
	}
	p.begun = true
	s := p.cfg.Source.Read(now, due)
	if p.cfg.Headroom != nil {
		if due.Heat {
			s.Headroom = p.headroom.Add(now, p.cfg.Headroom())
		} else {
			s.Headroom = p.last.Load().snapshot.Headroom
		}
	}
	p.last.Store(&polled{now, s, s.Signals()})
}

// Signals are the last facts for the scheduler; unknown before the first reading,
// and when no reading has ended for ten seconds. Safe for concurrent use.
func (p *Poller) Signals() scheduler.HostSignals {
	last := p.last.Load()
	if p.cfg.Now()-last.at > int64(signalsKept) {
		return scheduler.HostSignals{}
	}
	return last.signals
}

// Snapshot is the last reading. Safe for concurrent use.
func (p *Poller) Snapshot() Snapshot { return p.last.Load().snapshot }

// Close ends polling and waits for a reading that runs, a second at most: one that
// a driver doesn't answer ends by itself when it does. Safe for concurrent use.
func (p *Poller) Close() {
	p.once.Do(func() { close(p.quit) })
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
}
