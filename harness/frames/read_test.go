package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func encodeUTF16(text string, order binary.AppendByteOrder, mark bool) []byte {
	var b []byte
	if mark {
		b = order.AppendUint16(b, 0xFEFF)
	}
	for _, u := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, u)
	}
	return b
}

// The same capture in another dress gives the same records.
func TestEncodings(t *testing.T) {
	for file, content := range captures(t) {
		text := strings.TrimPrefix(string(content), string(utf8BOM))
		if file == "spreadsheet.csv" {
			text = strings.ReplaceAll(text, "\r\n", "\n")
		}
		want := tell(bytes.NewReader([]byte(text)), Options{})
		for dress, b := range map[string][]byte{
			"UTF-8 with mark":          append([]byte("\xEF\xBB\xBF"), text...),
			"UTF-16LE with mark":       encodeUTF16(text, binary.LittleEndian, true),
			"UTF-16BE with mark":       encodeUTF16(text, binary.BigEndian, true),
			"UTF-16LE without":         encodeUTF16(text, binary.LittleEndian, false),
			"UTF-16BE without":         encodeUTF16(text, binary.BigEndian, false),
			"CRLF":                     []byte(strings.ReplaceAll(text, "\n", "\r\n")),
			"UTF-16LE with mark, CRLF": encodeUTF16(strings.ReplaceAll(text, "\n", "\r\n"), binary.LittleEndian, true),
		} {
			if d := cmp.Diff(want, tell(bytes.NewReader(b), Options{})); d != "" {
				t.Errorf("%s as %s (-plain +dressed):\n%s", file, dress, d)
			}
		}
	}
}

// As a spreadsheet of a country with decimal commas exports it.
func TestDecimalCommas(t *testing.T) {
	content := string(captures(t)["presentmon2.csv"])
	want := tell(bytes.NewReader([]byte(content)), Options{})
	german := strings.NewReplacer(",", ";", ".exe", ".exe", ".", ",").Replace(content)
	if d := cmp.Diff(want, tell(bytes.NewReader([]byte(german)), Options{})); d != "" {
		t.Errorf("-plain +semicolons and commas:\n%s", d)
	}
	var quoted strings.Builder
	for row := range strings.Lines(content) {
		end := strings.TrimLeft(row, strings.TrimRight(row, "\n"))
		fields := strings.Split(strings.TrimSuffix(row, "\n"), ",")
		for i, f := range fields {
			if f == "0.25" || strings.Contains(f, ".0") {
				fields[i] = `"` + strings.ReplaceAll(f, ".", ",") + `"`
			} else if strings.Contains(f, ".") && f != "mine.exe" {
				fields[i] = `"` + strings.ReplaceAll(f, ".", ",") + `"`
			}
		}
		quoted.WriteString(strings.Join(fields, ",") + end)
	}
	if d := cmp.Diff(want, tell(bytes.NewReader([]byte(quoted.String())), Options{})); d != "" {
		t.Errorf("-plain +quoted commas:\n%s", d)
	}
}

func TestUnquotedCommasAreExplained(t *testing.T) {
	text := "Application,FrameTime,CPUBusy,CPUWait\n" + strings.Repeat("mine.exe,16,67,9,5,7,17\n", 5)
	sum, err := Read(strings.NewReader(text), Options{}, func(r *Record) error {
		t.Errorf("made of slipped fields: %+v", r)
		return nil
	})
	if err != nil || sum.Rejected[BadRow] != 5 || len(sum.Notes) != 1 || !strings.Contains(sum.Notes[0], "semicolons") {
		t.Errorf("%v, %+v", err, sum)
	}
}

func TestNoCapture(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                    "",
		"blanks":                   " \r\n\t\n",
		"prose":                    "Once upon a time,\nthere was a frame.\n",
		"another CSV":              "name,value\na,1\n",
		"another JSON":             `{"frames":[1,2,3]}`,
		"a run without times":      `{"Runs":[{"CaptureData":{"Dropped":[true]}}]}`,
		"a binary":                 "\x7fELF\x02\x01\x01\x00\x00\x00",
		"a line that never ends":   strings.Repeat("a,", 1<<20),
		"a header too far down":    strings.Repeat("x\n", maxPreambleLines) + "fps,frametime\n60,16\n",
		"a header with one column": "FrameTime\n16\n",
	} {
		sum, err := Read(strings.NewReader(text), Options{}, func(*Record) error { return errors.New("a record") })
		if !errors.Is(err, ErrNoCapture) || sum == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBrokenJSON(t *testing.T) {
	for name, text := range map[string]string{
		"cut":              `{"Runs":[{"CaptureData":{"MsBetweenPresents":[1,2`,
		"bare NaN":         `{"Runs":[{"CaptureData":{"MsBetweenPresents":[NaN]}}]}`,
		"a long string":    `{"Info":{"Comment":"` + strings.Repeat("x", 4*maxTokenBytes) + `"}}`,
		"nested very deep": `{"x":` + strings.Repeat("[", 5000),
	} {
		_, err := Read(strings.NewReader(text), Options{}, func(*Record) error { return nil })
		if !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What stood before the break is kept, and the break is said.
func TestBrokenJSONKeepsCompleteRuns(t *testing.T) {
	whole := `{"Runs":[{"CaptureData":{"MsBetweenPresents":[10,11]}},`
	c, err := Load(strings.NewReader(whole+`{"CaptureData":{"MsBetweenPre`), Options{})
	if err != nil || c.Len() != 2 || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "after 1 complete runs") {
		t.Errorf("%v, %+v", err, c)
	}
}

func TestCallersErrorComesBack(t *testing.T) {
	mine := errors.New("mine")
	for file, content := range captures(t) {
		_, err := Read(bytes.NewReader(content), Options{}, func(*Record) error { return mine })
		if !errors.Is(err, mine) || errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

type failing struct{ r io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the disk is gone")
	}
	return n, err
}

func TestReaderFails(t *testing.T) {
	for file, content := range captures(t) {
		_, err := Read(failing{bytes.NewReader(content)}, Options{}, func(*Record) error { return nil })
		if file == "capframex.json" {
			continue // its end is known from its braces, so nobody reads on
		}
		if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "the disk is gone") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestLongLineIsSkipped(t *testing.T) {
	text := "fps,frametime,note\n60,16,a\n60,17," + strings.Repeat("x", 3*maxLineBytes) + "\n60,18,b\n"
	var got []time.Duration
	sum, err := Read(strings.NewReader(text), Options{}, func(r *Record) error {
		got = append(got, r.FrameTime)
		return nil
	})
	want := []time.Duration{16 * time.Millisecond, 18 * time.Millisecond}
	if err != nil || !cmp.Equal(got, want) || sum.Rejected[LineTooLong] != 1 || sum.Rows != 3 {
		t.Errorf("%v, %v, %+v", err, got, sum)
	}
}

// A row that can't be read may stand between two of the same stream, so what is
// derived from the row before is unknown.
func TestNothingIsDerivedAcrossABadRow(t *testing.T) {
	text := "Application,MsBetweenPresents,MsInPresentAPI\na,10,1\nbroken\na,10,1\na,10,1\n"
	var known []bool
	_, err := Read(strings.NewReader(text), Options{}, func(r *Record) error {
		known = append(known, r.Known.Has(FieldCPUBusy))
		return nil
	})
	if want := []bool{false, false, true}; err != nil || !cmp.Equal(known, want) {
		t.Errorf("%v: CPU busy known %v, want %v", err, known, want)
	}
}

func TestTooManyStreams(t *testing.T) {
	var b strings.Builder
	b.WriteString("Application,FrameTime,CPUBusy\n")
	for i := range maxStreams + 10 {
		fmt.Fprintf(&b, "p%d,16,9\n", i)
	}
	sum, err := Read(strings.NewReader(b.String()), Options{}, func(*Record) error { return nil })
	if err != nil || len(sum.Streams) != maxStreams || sum.Rejected[TooManyStreams] != 10 {
		t.Errorf("%v, %d streams, %v", err, len(sum.Streams), sum.Rejected.Map())
	}
}

func TestLoadChooses(t *testing.T) {
	content := captures(t)["processes.csv"]
	for _, c := range []struct {
		process, chain string
		frames         int
		choice         string
		rejected       map[string]int64
	}{
		{"", "0x1", 3, "the process with the most frames of 2", map[string]int64{
			"bad-row": 1, "other-process": 2, "other-swap-chain": 1}},
		{"OVERLAY", "0x9", 2, "asked for", map[string]int64{"bad-row": 1, "other-process": 4}},
		{"77", "0x9", 2, "asked for", map[string]int64{"bad-row": 1, "other-process": 4}},
	} {
		got, err := Load(bytes.NewReader(content), Options{Process: c.process})
		if err != nil {
			t.Errorf("%q: %v", c.process, err)
			continue
		}
		if got.Len() != c.frames || got.Stream.SwapChain != c.chain || !strings.Contains(got.Choice, c.choice) {
			t.Errorf("%q: %d frames of %s: %s", c.process, got.Len(), got.Stream.SwapChain, got.Choice)
		}
		if d := cmp.Diff(c.rejected, got.Rejected.Map()); d != "" {
			t.Errorf("%q: rejected (-want +got):\n%s", c.process, d)
		}
		if int64(got.Len())+got.Rejected.Sum() != got.Rows {
			t.Errorf("%q: %d frames + %d rejected of %d rows", c.process, got.Len(), got.Rejected.Sum(), got.Rows)
		}
	}
	_, err := Load(bytes.NewReader(content), Options{Process: "nobody"})
	if !errors.Is(err, ErrNoProcess) || !strings.Contains(err.Error(), "Mine, the game.exe, overlay.exe") {
		t.Errorf("%v", err)
	}
	_, err = Load(strings.NewReader("fps,frametime\n60,NA\n"), Options{})
	if !errors.Is(err, ErrNoFrames) || !strings.Contains(err.Error(), "na:1") {
		t.Errorf("%v", err)
	}
}

func TestSampledLogIsNoted(t *testing.T) {
	var b strings.Builder
	b.WriteString("fps,frametime,elapsed\n")
	for i := range 50 {
		fmt.Fprintf(&b, "60,16.6,%d\n", (i+1)*100_000_000)
	}
	c, err := Load(strings.NewReader(b.String()), Options{})
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "cover 17 %") {
		t.Errorf("%v, %v", err, c.Notes)
	}
}

func TestClockUnits(t *testing.T) {
	for unit, ms := range map[string]float64{"s": 1000, "ms": 1, "µs": 1e-3, "ticks of 100 ns": 1e-4} {
		var b strings.Builder
		b.WriteString("Application,FrameTime,CPUBusy,CPUStartTime\n")
		for i := range 20 {
			fmt.Fprintf(&b, "a,16.5,9,%.6f\n", float64(i)*16.5/ms)
		}
		c, err := Load(strings.NewReader(b.String()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.At(19).Start.Round(time.Microsecond), 19*16500*time.Microsecond; got != want {
			t.Errorf("%s: the last frame starts at %v, want %v", unit, got, want)
		}
	}
	c, err := Load(strings.NewReader("Application,FrameTime,CPUBusy,CPUStartTime\na,16,9,0\na,16,9,77\n"), Options{})
	if err != nil || c.Stream.Values[FieldStart][UnknownUnit] != 2 {
		t.Errorf("a clock that fits no unit: %v, %v", err, c.Stream.Values[FieldStart].Map())
	}
}

// However long the file, reading it takes the same memory.
func TestMemoryIsFlat(t *testing.T) {
	for _, f := range []Format{PresentMon1, PresentMon2} {
		allocs := func(size int64) float64 {
			return testing.AllocsPerRun(1, func() {
				if _, err := Read(synthetic(f, size), Options{}, func(*Record) error { return nil }); err != nil {
					t.Fatal(err)
				}
			})
		}
		synthetic(f, 0)
		small, large := allocs(1<<20), allocs(16<<20)
		// A MiB has thousands of rows; what pools lose to the collector varies.
		if large > small+500 {
			t.Errorf("%v: %v allocations for 1 MiB, %v for 16 MiB", f, small, large)
		}
	}
}

// Every row ends as a record or under exactly one reason, and no value is known
// that can't be.
func checkRead(t interface {
	Fatalf(string, ...any)
	Helper()
}, content []byte) {
	t.Helper()
	var records int64
	last := int64(0)
	sum, err := Read(bytes.NewReader(content), Options{}, func(r *Record) error {
		records++
		if r.Row <= last || r.FrameTime <= 0 || r.FrameTime > time.Hour || !r.Known.Has(FieldFrameTime) {
			t.Fatalf("impossible record after row %d: %+v", last, r)
		}
		last = r.Row
		for f, d := range times(r) {
			known := r.Known.Has(Field(f))
			if !known && d != 0 {
				t.Fatalf("%s is unknown and %v: %+v", Field(f), d, r)
			}
			switch Field(f) {
			case FieldStart:
			case FieldAnimationError:
				d = d.Abs()
				fallthrough
			default:
				if known && (d < 0 || d > time.Hour) {
					t.Fatalf("%s is %v: %+v", Field(f), d, r)
				}
			}
		}
		return nil
	})
	if sum.Rows != records+sum.Rejected.Sum() || sum.Frames() != records {
		t.Fatalf("%d rows, %d records, rejected %v", sum.Rows, records, sum.Rejected.Map())
	}
	if err != nil && !errors.Is(err, ErrNoCapture) && !errors.Is(err, ErrBroken) {
		t.Fatalf("nameless error: %v", err)
	}
}

func TestRowsAddUp(t *testing.T) {
	for file, content := range captures(t) {
		for n := 0; n < len(content); n += 5 { // cut anywhere
			checkRead(t, content[:n])
		}
		t.Log(file)
	}
}

// Rows of any fields under a real header.
func TestAnyRows(t *testing.T) {
	field := rapid.OneOf(
		rapid.SampledFrom([]string{"", "NA", "0", "-1", "16.5", "1e3", "-1844674407370945.5", "mine.exe", `"a,b"`, `"`,
			"16,5", "1e400", "NaN", "0x10", "+5", "1_000", "16.", ".5", "--1", "9999999999999999999999"}),
		rapid.StringN(0, 12, 40),
	)
	rapid.Check(t, func(t *rapid.T) {
		header := rapid.SampledFrom([]string{
			"Application,FrameTime,CPUBusy,CPUWait,GPUBusy,CPUStartTime",
			"Application;MsBetweenPresents;MsInPresentAPI;TimeInSeconds;Dropped;msGPUActive",
			"fps,frametime,gpu_load,elapsed",
		}).Draw(t, "header")
		sep := ","
		if strings.Contains(header, ";") {
			sep = ";"
		}
		rows := []string{header}
		for range rapid.IntRange(0, 20).Draw(t, "rows") {
			n := strings.Count(header, sep) + 1
			rows = append(rows, strings.Join(rapid.SliceOfN(field, n-1, n+1).Draw(t, "row"), sep))
		}
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		checkRead(t, []byte(strings.Join(rows, end)))
	})
}
