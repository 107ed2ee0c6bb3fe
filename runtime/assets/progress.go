package assets

// Progress is told how far a long step has come. Start and Done come in pairs,
// one step at a time; Set and Note may come from another goroutine than Start,
// but never at once with another call.
type Progress interface {
	Start(name string, totalBytes int64) // 0 is unknown
	Set(doneBytes int64)
	Note(text string) // one line that a person should see
	Done(err error)
}

type silent struct{}

func (silent) Start(string, int64) {}
func (silent) Set(int64)           {}
func (silent) Note(string)         {}
func (silent) Done(error)          {}

// meter counts bytes as they pass and says so at most once in each megabyte,
// so that a progress display costs nothing beside hashing.
type meter struct {
	to         Progress
	sum, shown int64
}

const meterStep = 1 << 20

func (m *meter) Write(p []byte) (int, error) {
	m.sum += int64(len(p))
	if m.sum-m.shown >= meterStep {
		m.shown = m.sum
		m.to.Set(m.sum)
	}
	return len(p), nil
}
