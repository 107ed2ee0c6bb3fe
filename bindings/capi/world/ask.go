package world

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

// letter is what became of a line at the asker's.
type letter struct {
	reply    *reply
	chat     npc.Chat // after Say
	request  llm.RequestID
	prepared time.Duration // from Say to Submit
	dropped  int           // tokens of the conversation that did not fit
	err      error
}

// mail carries letters to the host's side. The lock is held across Submit, so
// that whoever gets it finds the letter of every request that has events.
type mail struct {
	mu      sync.Mutex
	letters []letter
}

// ask is the asker: it waits for the model, makes prompts of lines and submits
// them, one after the other.
func (w *World) ask() {
	defer close(w.asking)
	select {
	case <-w.loading:
	case <-w.quit:
		return
	}
	for {
		select {
		case <-w.quit:
			return
		case r := <-w.asks:
			if !r.off.Load() {
				w.answer(r)
			}
		}
	}
}

// answer makes the request of one line.
func (w *World) answer(r *reply) {
	l := letter{reply: r, chat: r.chat}
	run := w.loaded.Load()
	if run == nil {
		l.err = Errorf(NotReady, "the world has no model: %v", w.loadErr)
		w.post(l)
		return
	}
	request, err := w.prepare(run, &l)
	if err != nil {
		l.err = err
		w.post(l)
		return
	}
	w.mail.mu.Lock()
	defer w.mail.mu.Unlock()
	if l.request, err = run.Engine.Submit(request); err != nil {
		l.err = submitError(err)
	}
	l.prepared = time.Duration(Clock.Now() - r.asked)
	l.chat.Sent(l.request)
	w.mail.letters = append(w.mail.letters, l)
}

func submitError(err error) error {
	if errors.Is(err, llm.ErrQueueFull) {
		return Errorf(Full, "%v", err)
	}
	return Errorf(Model, "%v", err)
}

// prepare makes the request of a letter's line, or of its persona.
func (w *World) prepare(run *local.Runtime, l *letter) (request llm.Request, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Errorf(Internal, "making a prompt panicked: %v\n%s", p, debug.Stack())
			w.log.add(LogError, err.Error())
		}
	}()
	budget := npc.DefaultBudget(run.Model.Info(), l.chat.Persona())
	line := l.reply.line
	chat := l.chat
	if l.reply.warm {
		line = "?" // any line: only what stands before it is used
	}
	request, prompt, err := chat.Say(run.Model, budget, line)
	if err != nil {
		return request, Errorf(InvalidArgument, "%v", err)
	}
	if l.reply.warm {
		return llm.Request{Owner: chat.Owner, Prompt: prompt.Tokens[:prompt.Keep], MaxTokens: 1,
			Priority: l.reply.priority}, nil
	}
	l.chat, l.dropped = chat, prompt.DroppedTokens
	if prompt.Line.Cut > 0 {
		w.log.add(LogWarning, fmt.Sprintf("a line was cut: %d characters of it were too many", prompt.Line.Cut))
	}
	request.Priority = l.reply.priority
	return request, nil
}

func (w *World) post(l letter) {
	w.mail.mu.Lock()
	defer w.mail.mu.Unlock()
	w.mail.letters = append(w.mail.letters, l)
}
