package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/rag"
)

func newMemoryCommand(a *app) *cobra.Command {
	return newGroup("memory", "Look into what characters remember, move it, mend it, measure recall", `
A STORE is the folder in which a game keeps its memories, or a save: one file.
Reading commands (ls, search, show, export, verify, stats) lock nothing and
change nothing, so they may run while the game plays. The others need the store
for themselves.`, `
  lull memory ls saves/village --npc Mara
  lull memory search saves/village "who stole the sword?" --npc Mara
  lull memory export saves/village mara.jsonl
  lull memory eval locomo.json --embedder none`,
		newMemoryLsCommand(a), newMemorySearchCommand(a), newMemoryShowCommand(a), newMemoryExportCommand(a),
		newMemoryImportCommand(a), newMemoryVerifyCommand(a), newMemoryRepairCommand(a), newMemoryReindexCommand(a),
		newMemoryStatsCommand(a), newMemoryEvalCommand(a))
}

// knowerFlags say who asks.
type knowerFlags struct {
	npc      string
	factions []string
	regions  []string
}

func (k *knowerFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&k.npc, "npc", "", "only what the character `NAME` may know")
	c.Flags().StringSliceVar(&k.factions, "faction", nil, "`NAME`s of factions that the character belongs to")
	c.Flags().StringSliceVar(&k.regions, "region", nil, "`NAME`s of regions that it lives in")
}

// given reports whether somebody in particular asks.
func (k *knowerFlags) given() bool { return k.npc != "" || len(k.factions)+len(k.regions) > 0 }

func (k *knowerFlags) knower() rag.Knower {
	return rag.Knower{NPC: k.npc, Factions: k.factions, Regions: k.regions}
}

// viewMemories opens a store for reading and tells what was found on the way.
func (a *app) viewMemories(path string, e rag.Embedder) (*rag.Store, error) {
	cfg := rag.DefaultConfig("")
	cfg.Embedder = e
	s, err := rag.View(cfg, path)
	return s, a.noted(path, s, err)
}

// openMemories opens a store for writing.
func (a *app) openMemories(path string, e rag.Embedder) (*rag.Store, error) {
	cfg := rag.DefaultConfig(path)
	cfg.Embedder = e
	s, err := rag.Open(cfg)
	return s, a.noted(path, s, err)
}

func (a *app) noted(path string, s *rag.Store, err error) error {
	if err != nil {
		return adviseMemory(path, err)
	}
	for _, n := range s.Notes() {
		a.ui.notef("%s", visible(n))
	}
	return nil
}

// adviseMemory says what to do about a store that does not open.
func adviseMemory(path string, err error) error {
	switch {
	case errors.Is(err, rag.ErrDamaged):
		if _, nothing := rag.Verify(path); nothing != nil {
			return hinted{err, "nothing in it can be read: want the folder or a save of a game's memories"}
		}
		return hinted{err, "run `lull memory repair` on it, or load a save"}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return hinted{err, "make the folder writable, or work on a copy; ls, search, show, export, verify and stats " +
			"only read"}
	case errors.Is(err, rag.ErrLocked):
		return hinted{err, "end the game, or the other command, that has it open"}
	}
	return err
}

// hours is a game time for people: days and hours since the story began.
func hours(t rag.GameTime) string {
	sign := ""
	if t < 0 {
		sign, t = "-", -t
	}
	t = t.Truncate(time.Second)
	if t >= 24*time.Hour {
		return fmt.Sprintf("%sday %d %02d:%02d", sign, t/(24*time.Hour), t/time.Hour%24, t/time.Minute%60)
	}
	return sign + t.String()
}

// oneLine is a text for a table.
func oneLine(text string, columns int) string {
	runes := []rune{}
	for _, r := range visible(text) {
		if r == '\n' || r == '\t' {
			r = ' '
		}
		if runes = append(runes, r); len(runes) == columns {
			runes[columns-1] = '…'
			break
		}
	}
	return string(runes)
}

// visible is a text for the terminal, with what nobody sees, or what turns text
// round, spelled out: a memory may come from anybody.
func visible(text string) string {
	const joiners = "\u200c\u200d" // Persian, Hindi and emoji need them
	var b strings.Builder
	for _, r := range printable(text) {
		if unicode.Is(unicode.Cf, r) && !strings.ContainsRune(joiners, r) {
			fmt.Fprintf(&b, `\u{%04x}`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// memories is a number of them.
func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return fmt.Sprintf("%d memories", n)
}

// textColumns is how much of a memory a table shows.
const textColumns = 72

func knownBy(l rag.Line) string {
	who := l.Owner
	if l.Scope == rag.World.String() {
		return "all the world"
	}
	if l.Scope != rag.Own.String() {
		who += ", " + l.Scope
	}
	for i, name := range l.Audience {
		if i == 3 {
			return visible(who) + " …"
		}
		who += " " + name
	}
	return visible(who)
}

// closing joins what a command and the closing of its store have to say.
func closing(err *error, s interface{ Close() error }) {
	*err = errors.Join(*err, s.Close())
}

// freeing does so for an embedder.
func freeing(err *error, free func() error) { *err = errors.Join(*err, free()) }

// embedWaiting gives each memory that waits its vector, and says how far it is.
func (a *app) embedWaiting(ctx context.Context, s *rag.Store) (int, error) {
	waiting := s.Stats().Pending
	done, said := 0, a.ui.now()
	slice := rag.DefaultConfig("").FirstCost
	for {
		d := s.WorkContext(ctx, slice)
		slice = max(slice, 2*d.Next)
		done += d.Indexed
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		if d.Err != nil {
			a.ui.notef("%v", d.Err)
		}
		if d.Next == 0 || d.Pending == 0 {
			return done, nil
		}
		if now := a.ui.now(); now.Sub(said) >= plainEvery {
			said = now
			a.ui.notef("%d of %d memories have vectors", done, waiting)
		}
	}
}
