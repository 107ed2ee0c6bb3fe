package calibrate

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/lull-npc/lull/scheduler"
)

func some() scheduler.Baselines {
	return scheduler.Baselines{Device: "CPU", Rows: []scheduler.BaselineRow{
		{Width: 1, Threads: 2, Layers: []time.Duration{400_000, 410_000, 2_000_000}, Halt: 30_000,
			Past: 20, PerToken: 280},
		{Draft: true, Width: 1, Threads: 1, Layers: []time.Duration{90_000, 70_000}},
	}}
}

func TestStored(t *testing.T) {
	data, err := EncodeBaselines(nil, "model A", some())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeBaselines(data, "model A")
	if err != nil || !cmp.Equal(got, some()) {
		t.Errorf("%v %s", err, cmp.Diff(some(), got))
	}
	for name, c := range map[string]struct {
		data []byte
		key  string
		want string
	}{
		"another key":  {data, "model B", "another model"},
		"nothing":      {nil, "model A", "EOF"},
		"cut":          {data[:len(data)-3], "model A", "EOF"},
		"longer":       {append(bytes.Clone(data), 1), "model A", "after the end"},
		"another file": {bytes.Replace(data, []byte("layer"), []byte("lager"), 1), "model A", "begin with"},
		"version":      {bytes.Replace(data, []byte(magic+"\x01"), []byte(magic+"\x09"), 1), "model A", "version 9"},
		"huge":         {make([]byte, MaxStored+1), "model A", "at most"},
		"claims":       {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, "model A", "4294967295 elements"},
		"bad row":      {change(t, func(s *stored) { s.Rows[0].Layers[0] = -5 }), "model A", "layer 0"},
	} {
		_, err := DecodeBaselines(c.data, c.key)
		if !errors.Is(err, ErrStored) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: want ErrStored with %q", name, err, c.want)
		}
	}
	bad := some()
	bad.Rows[0].Width = 0
	if _, err := EncodeBaselines(nil, "", bad); !errors.Is(err, scheduler.ErrBaselines) {
		t.Errorf("bad baselines were stored: %v", err)
	}
}

// change stores some baselines with a change that EncodeBaselines would refuse.
func change(t *testing.T, f func(*stored)) []byte {
	s := stored{Magic: magic, Version: version, Key: hash("model A"), Device: "CPU"}
	for _, r := range some().Rows {
		row := storedRow{Draft: r.Draft, Width: r.Width, Threads: r.Threads, Halt: int64(r.Halt)}
		for _, l := range r.Layers {
			row.Layers = append(row.Layers, int64(l))
		}
		s.Rows = append(s.Rows, row)
	}
	f(&s)
	data, err := msgpack.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzDecode: no input panics or is believed without being valid.
func FuzzDecode(f *testing.F) {
	data, err := EncodeBaselines(nil, "key", some())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{})
	f.Add([]byte{0x95, 0xdb, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeBaselines(data, "key")
		if err != nil {
			if !errors.Is(err, ErrStored) {
				t.Fatalf("%v: want ErrStored", err)
			}
			return
		}
		again, err := EncodeBaselines(nil, "key", b)
		if err != nil {
			t.Fatal(err)
		}
		c, err := DecodeBaselines(again, "key")
		if err != nil || !cmp.Equal(b, c) {
			t.Fatalf("%v %s", err, cmp.Diff(b, c))
		}
	})
}
