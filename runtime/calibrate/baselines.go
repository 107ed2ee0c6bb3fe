package calibrate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// ErrStored is wrapped by the reason why stored baselines are not used. Measure
// anew and store that.
var ErrStored = errors.New("calibrate: stored baselines are not usable")

const (
	magic   = "lull layer baselines"
	version = 1

	// MaxStored bounds a file: every row that there may be of a model of 400
	// layers takes 150 KB.
	MaxStored = 1 << 20

	// maxDevice is the longest name of a device, in bytes.
	maxDevice = 256
)

// stored is the file. New fields go last.
type stored struct {
	//lint:ignore U1000 msgpack reads its tag
	_msgpack struct{} `msgpack:",as_array"`

	Magic   string
	Version int
	Key     []byte
	Device  string
	Rows    []storedRow
}

type storedRow struct {
	//lint:ignore U1000 msgpack reads its tag
	_msgpack struct{} `msgpack:",as_array"`

	Draft    bool
	Width    int
	Threads  int
	Layers   []int64 // ns
	Halt     int64
	Past     int
	PerToken int64
}

// AddSamples gives a sensor the layer times of a batch that ended at an instant,
// after past tokens; calm says that nothing else wanted memory then.
func AddSamples(s *scheduler.Sensor, w *llm.Work, past int, draft bool, at scheduler.Instant, calm bool) {
	for i := range w.Samples {
		l := &w.Samples[i]
		s.Add(scheduler.LayerSample{
			Draft: draft, First: int(l.First), Last: int(l.Last), Width: int(l.Width), Threads: int(l.Threads),
			Past: past, Duration: l.Duration, Switched: l.Switched,
		}, at, calm)
	}
}

// hash is what is stored of a key, so that a profile tells nothing of paths.
func hash(key string) []byte {
	h := sha256.Sum256([]byte(key))
	return h[:]
}

// EncodeBaselines appends the stored form of b to dst. key names all that they
// depend on: models, library, processor.
func EncodeBaselines(dst []byte, key string, b scheduler.Baselines) ([]byte, error) {
	if err := b.Validate(); err != nil {
		return dst, err
	}
	if len(b.Device) > maxDevice {
		return dst, fmt.Errorf("calibrate: a device name of %d bytes: want %d at most", len(b.Device), maxDevice)
	}
	s := stored{Magic: magic, Version: version, Key: hash(key), Device: string(b.Device)}
	for _, r := range b.Rows {
		row := storedRow{Draft: r.Draft, Width: r.Width, Threads: r.Threads, Halt: int64(r.Halt),
			Past: r.Past, PerToken: int64(r.PerToken)}
		for _, t := range r.Layers {
			row.Layers = append(row.Layers, int64(t))
		}
		s.Rows = append(s.Rows, row)
	}
	data, err := msgpack.Marshal(&s)
	if err != nil {
		return dst, fmt.Errorf("calibrate: store baselines: %w", err)
	}
	if len(data) > MaxStored {
		return dst, fmt.Errorf("calibrate: baselines of %d bytes: want %d at most", len(data), MaxStored)
	}
	return append(dst, data...), nil
}

// DecodeBaselines reads what EncodeBaselines wrote for the same key. Every other
// input is an error that wraps ErrStored; none takes more memory than a few times
// its size.
func DecodeBaselines(data []byte, key string) (scheduler.Baselines, error) {
	bad := func(format string, args ...any) (scheduler.Baselines, error) {
		return scheduler.Baselines{}, fmt.Errorf("%w: %s", ErrStored, fmt.Sprintf(format, args...))
	}
	if len(data) > MaxStored {
		return bad("%d bytes: want %d at most", len(data), MaxStored)
	}
	reader := bytes.NewReader(data)
	in := input{d: msgpack.NewDecoder(reader)}
	in.array("file", 5, 5)
	if got := string(in.bytes(len(magic))); in.err == nil && got != magic {
		return bad("they begin with %q, want %q", got, magic)
	}
	if v := take(&in, in.d.DecodeInt); in.err == nil && v != version {
		return bad("version %d, want %d", v, version)
	}
	if k := in.bytes(sha256.Size); in.err == nil && !bytes.Equal(k, hash(key)) {
		return bad("they are of another model, library or processor")
	}
	b := scheduler.Baselines{Device: scheduler.DeviceID(in.bytes(maxDevice))}
	for range in.array("rows", 0, scheduler.MaxBaselineRows) {
		if in.err != nil {
			break
		}
		b.Rows = append(b.Rows, in.row())
	}
	switch {
	case in.err != nil:
		return bad("%v", in.err)
	case reader.Len() > 0:
		return bad("%d bytes after the end", reader.Len())
	}
	if err := b.Validate(); err != nil {
		return bad("%v", err)
	}
	return b, nil
}

// input reads field by field: msgpack by itself makes room for as many elements
// or bytes as a length claims, and four bytes may claim four billion. The first
// error stays.
type input struct {
	d   *msgpack.Decoder
	err error
}

func (in *input) row() scheduler.BaselineRow {
	var r scheduler.BaselineRow
	in.array("row", 7, 7)
	r.Draft = take(in, in.d.DecodeBool)
	r.Width = take(in, in.d.DecodeInt)
	r.Threads = take(in, in.d.DecodeInt)
	for range in.array("layers", 0, scheduler.MaxLayers+1) {
		if in.err != nil {
			break
		}
		r.Layers = append(r.Layers, time.Duration(take(in, in.d.DecodeInt64)))
	}
	r.Halt = time.Duration(take(in, in.d.DecodeInt64))
	r.Past = take(in, in.d.DecodeInt)
	r.PerToken = time.Duration(take(in, in.d.DecodeInt64))
	return r
}

// bytes reads a string or bytes of most at most.
func (in *input) bytes(most int) []byte {
	n := max(0, take(in, in.d.DecodeBytesLen))
	if in.err == nil && n > most {
		in.err = fmt.Errorf("a text of %d bytes: want %d at most", n, most)
	}
	if in.err != nil {
		return nil
	}
	b := make([]byte, n)
	in.err = in.d.ReadFull(b)
	return b
}

// array reads the length of an array, and gives 0 where it is not least…most.
// A nil array, as msgpack writes an empty one, has the length 0.
func (in *input) array(what string, least, most int) int {
	n := max(0, take(in, in.d.DecodeArrayLen))
	if in.err == nil && (n < least || n > most) {
		in.err = fmt.Errorf("%s: %d elements: want %d…%d", what, n, least, most)
	}
	if in.err != nil {
		return 0
	}
	return n
}

func take[T any](in *input, read func() (T, error)) T {
	var v T
	if in.err == nil {
		v, in.err = read()
	}
	return v
}
