package rag

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A game thread, a thread that recalls, one that embeds, one that saves and
// compacts, all at once. Nothing that was accepted is missing at the end.
func TestAllAtOnce(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig(filepath.Join(dir, "store"))
	cfg.Embedder, cfg.Sync, cfg.Backlog = newEmbedder(), SyncProcess, 64
	s := openStore(t, cfg)
	var wg sync.WaitGroup
	done := make(chan struct{})
	aside := func(do func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	aside(func(i int) error {
		r, err := s.Recall(t.Context(), Query{Knower: mara, Text: fmt.Sprint("arrow ", i), Now: GameTime(i),
			ReadOnly: i%2 == 0})
		return errors.Join(err, r.Err)
	})
	aside(func(int) error { return s.Work(50 * time.Millisecond).Err })
	aside(func(i int) error {
		if i%2 == 0 {
			return s.Compact()
		}
		return s.SaveNow(filepath.Join(dir, "slot"))
	})
	aside(func(int) error { s.Due(); s.Stats(); s.Poll(nil); return nil })
	var ids []ID
	for i := range 400 {
		ids = append(ids, remember(t, s, own(fmt.Sprintf("arrow %d hits the door", i))))
	}
	close(done)
	wg.Wait()
	must(t, s.Close())
	s = openStore(t, cfg)
	lines := strings.Count(dump(t, s), "\n")
	if lines != len(ids) || !slices.IsSorted(ids) {
		t.Errorf("%d of %d memories are there", lines, len(ids))
	}
}

// Loading and clearing while others work leaves one future, not a mixture.
func TestLoadWhileOthersWork(t *testing.T) {
	dir := t.TempDir()
	cfg := DefaultConfig(filepath.Join(dir, "store"))
	cfg.Embedder, cfg.Sync = newEmbedder(), SyncProcess
	s := openStore(t, cfg)
	for i := range 50 {
		remember(t, s, own(fmt.Sprintf("chapter %d", i)))
	}
	slot := filepath.Join(dir, "slot")
	must(t, s.SaveNow(slot))
	var wg sync.WaitGroup
	done := make(chan struct{})
	for worker := range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if worker == 0 {
					s.Work(20 * time.Millisecond)
				} else if _, err := s.Recall(t.Context(), Query{Knower: mara, Text: "chapter"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		remember(t, s, own(fmt.Sprintf("future %d", i)))
		if i%2 == 0 {
			must(t, s.Clear())
		}
		must(t, s.Load(slot))
	}
	close(done)
	wg.Wait()
	s.Work(time.Hour)
	must(t, s.Close())
	s = openStore(t, cfg)
	st := s.Stats()
	if st.Memories != 50 || st.Vectors != 50 || strings.Contains(dump(t, s), "future") {
		t.Errorf("%+v", st)
	}
}

func filled(b *testing.B, n int, cfg Config) *Store {
	b.Helper()
	s := openStore(b, cfg)
	r := rand64(n)
	for i := range n {
		words := make([]string, 8+r.IntN(16))
		for j := range words {
			words[j] = fmt.Sprintf("word%d", int(float64(20000)*r.Float64()*r.Float64()*r.Float64()))
		}
		remember(b, s, Memory{Owner: "Mara", Text: fmt.Sprint(i, " ", strings.Join(words, " ")), At: GameTime(i)})
	}
	return s
}

// BenchmarkRemember says what the game thread pays, at the median and the 99th
// percentile.
func BenchmarkRemember(b *testing.B) {
	cfg := DefaultConfig(b.TempDir())
	s := filled(b, 10_000, cfg)
	must(b, s.Flush())
	var took []time.Duration
	i := 0
	for b.Loop() {
		m := own(fmt.Sprintf("the guard says line %d of his long complaint about the weather", i))
		start := time.Now()
		if _, err := s.Remember(m); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		if i++; i%100 == 0 { // a game remembers a few lines a frame, not thousands
			b.StopTimer()
			must(b, s.Flush())
			b.StartTimer()
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// BenchmarkRecall takes an embedder that costs nothing.
func BenchmarkRecall(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		e := &instant{vectors: clustered(rand64(1), 4096, 384)}
		cfg := DefaultConfig("")
		cfg.Embedder = e
		s := filled(b, n, cfg)
		s.Work(time.Hour)
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var took []time.Duration
			i := 0
			for b.Loop() {
				start := time.Now()
				text := fmt.Sprintf("what of word%d word7 word%d word%d", i, i*i%20000, i%11)
				r, err := s.Recall(b.Context(), Query{Knower: mara, Text: text, Now: 1 << 40, ReadOnly: true})
				took = append(took, time.Since(start))
				if err != nil || r.Err != nil || !r.Dense {
					b.Fatal(err, r.Err)
				}
				i++
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e6, "p99-ms")
			b.ReportMetric(float64(before.HeapAlloc)/1e6, "heap-MB")
		})
	}
}

// BenchmarkOpen is how long a store takes to load.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		cfg := DefaultConfig(b.TempDir())
		cfg.Embedder, cfg.Sync = &instant{vectors: clustered(rand64(1), 4096, 384)}, SyncProcess
		s := filled(b, n, cfg)
		s.Work(time.Hour)
		must(b, s.Compact())
		must(b, s.Close())
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s, err := Open(cfg)
				must(b, err)
				must(b, s.Close())
			}
		})
	}
}
