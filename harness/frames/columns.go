package frames

import (
	"bytes"
	"slices"
	"strings"
)

// column is a column of some tool that lull knows.
type column uint8

const (
	colProcess column = iota
	colProcessID
	colSwapChain
	colDropped
	colFrameType
	colStart
	colElapsed
	colFrameTime
	colFPS
	colBetweenPresents
	colInPresent
	colCPUBusy
	colCPUWait
	colGPUTime
	colGPUBusy
	colGPULoad
	colDisplayedTime
	colBetweenDisplayChange
	colUntilDisplayed
	colAnimationError
	numColumns
)

// aliases maps normalised headers. PresentMon wrote CPUBusy in 2.0 and MsCPUBusy
// later; 1.x wrote msGPUActive for what 2.x calls GPUBusy.
var aliases = map[string]column{
	"application": colProcess, "processname": colProcess,
	"processid": colProcessID, "pid": colProcessID,
	"swapchainaddress": colSwapChain, "swapchain": colSwapChain,
	"dropped":      colDropped,
	"frametype":    colFrameType,
	"cpustarttime": colStart, "cpustartqpctime": colStart, "cpustartqpc": colStart,
	"elapsed":   colElapsed,
	"frametime": colFrameTime, "msframetime": colFrameTime, "betweenappstart": colFrameTime,
	"msbetweenappstart": colFrameTime,
	"fps":               colFPS,
	"betweenpresents":   colBetweenPresents, "msbetweenpresents": colBetweenPresents,
	"inpresentapi": colInPresent, "msinpresentapi": colInPresent,
	"cpubusy": colCPUBusy, "mscpubusy": colCPUBusy, "cpuactive": colCPUBusy,
	"cpuwait": colCPUWait, "mscpuwait": colCPUWait,
	"gputime": colGPUTime, "msgputime": colGPUTime,
	"gpubusy": colGPUBusy, "msgpubusy": colGPUBusy, "msgpuactive": colGPUBusy, "gpuactive": colGPUBusy,
	"gpu_load":      colGPULoad,
	"displayedtime": colDisplayedTime, "msdisplayedtime": colDisplayedTime,
	"betweendisplaychange": colBetweenDisplayChange, "msbetweendisplaychange": colBetweenDisplayChange,
	"untildisplayed": colUntilDisplayed, "msuntildisplayed": colUntilDisplayed,
	"animationerror": colAnimationError, "msanimationerror": colAnimationError,
}

// lookup finds a column by its header. TimeInSeconds is a start only where no
// CPU start is given, which the caller settles.
func lookup(name string) (c column, second, ok bool) {
	name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, string(utf8BOM))))
	name = strings.TrimSuffix(strings.TrimSuffix(name, "(ms)"), "[ms]")
	name = strings.ReplaceAll(name, " ", "")
	if name == "timeinseconds" || name == "qpctime" {
		return colStart, true, true
	}
	c, ok = aliases[name]
	return c, false, ok
}

// layout says where the columns of a segment are.
type layout struct {
	format   Format
	sep      byte
	fields   int // how many the header names
	index    [numColumns]int16
	at       []column // the column at an index, numColumns for none; up to the last known one
	presents bool     // the start column is the time of Present, the end of the frame's interval

	decimal    decimal
	startUnit  float64 // ms in one unit of the start column; 0 is unknown
	frameUnit  float64 // ms in one unit of the frame time column
	duplicates []string
}

func (l *layout) has(c column) bool { return l.index[c] >= 0 }

// maxFields bounds a header. PresentMon with all sensors has 65 columns.
const maxFields = 4096

// newLayout recognises a header, or returns nil.
func newLayout(line []byte) *layout {
	l := &layout{sep: separator(line), frameUnit: 1}
	for i := range l.index {
		l.index[i] = -1
	}
	names := splitHeader(line, l.sep)
	if len(names) < 2 || len(names) > maxFields {
		return nil
	}
	l.fields = len(names)
	present := int16(-1)
	for i, name := range names {
		c, second, ok := lookup(name)
		switch {
		case !ok:
		case second && present < 0:
			present = int16(i)
		case second:
		case l.index[c] >= 0:
			l.duplicates = append(l.duplicates, strings.TrimSpace(name))
		default:
			l.index[c] = int16(i)
		}
	}
	if l.index[colStart] < 0 && present >= 0 {
		l.index[colStart], l.presents = present, true
	}
	l.format = l.recognise()
	if l.format == FormatUnknown {
		return nil
	}
	l.place()
	return l
}

func (l *layout) recognise() Format {
	switch {
	case l.has(colFrameTime) && l.has(colFPS) && !l.has(colCPUBusy):
		if l.has(colElapsed) {
			l.index[colStart] = l.index[colElapsed]
			l.presents = true
		}
		return MangoHud
	case l.has(colFrameTime), l.has(colCPUBusy) && l.has(colCPUWait), l.has(colBetweenPresents) && l.has(colCPUBusy):
		return PresentMon2
	case l.has(colBetweenPresents):
		return PresentMon1
	}
	return FormatUnknown
}

// place prepares the way back from an index to its column.
func (l *layout) place() {
	last := int16(slices.Max(l.index[:]))
	l.at = make([]column, last+1)
	for i := range l.at {
		l.at[i] = numColumns
	}
	l.index[colElapsed] = -1
	for c, i := range l.index {
		if i >= 0 {
			l.at[i] = column(c)
		}
	}
}

// separator is the likeliest of the three that spreadsheets write.
func separator(line []byte) byte {
	best, most := byte(','), 0
	for _, c := range []byte{',', ';', '\t'} {
		if n := bytes.Count(line, []byte{c}); n > most {
			best, most = c, n
		}
	}
	return best
}

func splitHeader(line []byte, sep byte) []string {
	if bytes.Count(line, []byte{sep}) > maxFields {
		return nil
	}
	names := strings.Split(string(line), string(sep))
	for i, n := range names {
		n = strings.TrimPrefix(n, string(utf8BOM))
		names[i] = strings.Trim(n, `"`)
	}
	return names
}
