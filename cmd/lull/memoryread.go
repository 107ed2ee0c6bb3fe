package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/rag"
)

func newMemoryLsCommand(a *app) *cobra.Command {
	var k knowerFlags
	var limit int
	c := &cobra.Command{
		Use:   "ls STORE",
		Short: "List memories, the newest last",
		Long: `List the memories of a store. Without --npc, --faction and --region all are
listed, whoever may know them.`,
		Example: `  lull memory ls saves/village
  lull memory ls saves/village --npc Mara --faction guild --limit 0 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.memoryLs(args[0], k, limit) },
	}
	k.add(c)
	c.Flags().IntVar(&limit, "limit", 50, "the newest `N` at most; 0 is all")
	return c
}

func (a *app) memoryLs(path string, k knowerFlags, limit int) error {
	if limit < 0 {
		return usagef("--limit %d: want from 0", limit)
	}
	s, err := a.viewMemories(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	lines := []rag.Line{}
	who := k.knower()
	s.All(func(m rag.Memory) bool {
		if !k.given() || who.MayKnow(&m) {
			lines = append(lines, rag.LineOf(m))
		}
		return true
	})
	total := len(lines)
	if limit > 0 {
		lines = lines[max(0, total-limit):]
	}
	if a.json {
		return a.ui.object(map[string]any{"total": total, "memories": lines})
	}
	t := a.ui.table("id", "when", "known by", "speaker", "text")
	for _, l := range lines {
		text := l.Text
		if l.Until != nil {
			text = "(until " + hours(rag.GameTime(*l.Until)) + ") " + text
		}
		t.AppendRow([]any{l.ID, hours(rag.GameTime(l.At)), knownBy(l), visible(l.Speaker),
			oneLine(text, textColumns)})
	}
	a.ui.render(t)
	if len(lines) < total {
		a.ui.notef("%d of %s; --limit 0 shows all", len(lines), memories(total))
	}
	return nil
}

type memorySearchFlags struct {
	knowerFlags
	limit    int
	now      string
	past     bool
	embedder string
}

func newMemorySearchCommand(a *app) *cobra.Command {
	var f memorySearchFlags
	c := &cobra.Command{
		Use:   "search STORE TEXT",
		Short: "Recall as a character would, without changing anything",
		Long: `Recall as the character --npc would when somebody says TEXT, and show why each
memory was found. Without --npc only what all the world knows is found.`,
		Example: `  lull memory search saves/village "who stole the sword?" --npc Mara
  lull memory search saves/village wolves --npc Bo --region Halm --now 72h --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.memorySearch(cmd.Context(), args[0], args[1], f)
		},
	}
	f.add(c)
	c.Flags().IntVar(&f.limit, "limit", 10, "`N` memories at most")
	c.Flags().StringVar(&f.now, "now", "", "game `TIME` since the story began, as 72h; else that of the newest memory")
	c.Flags().BoolVar(&f.past, "past", false, "also what was superseded")
	c.Flags().StringVar(&f.embedder, "embedder", noEmbedder,
		"`NAME` of the embedder that made the vectors; none is by words")
	return c
}

func (a *app) memorySearch(ctx context.Context, path, text string, f memorySearchFlags) (err error) {
	e, free, err := a.openEmbedder(ctx, f.embedder)
	if err != nil {
		return err
	}
	defer freeing(&err, free)
	s, err := a.viewMemories(path, e)
	if err != nil {
		return err
	}
	defer closing(&err, s)
	q := rag.Query{Knower: f.knower(), Text: text, Limit: f.limit, Past: f.past, ReadOnly: true}
	if q.Now, err = a.searchTime(s, f.now); err != nil {
		return err
	}
	r, err := s.Recall(ctx, q)
	if errors.Is(err, rag.ErrQuery) {
		return usagef("%w", err)
	}
	if err != nil {
		return err
	}
	if r.Err != nil {
		a.ui.notef("%v; found by words only", r.Err)
	}
	if a.json {
		return a.ui.object(map[string]any{"dense": r.Dense, "found": foundLines(r.Found)})
	}
	t := a.ui.table("id", "score", "relevance", "recency", "importance", "by", "text")
	for _, m := range r.Found {
		t.AppendRow([]any{m.ID, number(m.Score), number(m.Relevance), number(m.Recency), number(m.Importance),
			foundBy(m), oneLine(spoken(m.Memory), textColumns)})
	}
	a.ui.render(t)
	return nil
}

// searchTime is --now, or the newest memory's time.
func (a *app) searchTime(s *rag.Store, now string) (rag.GameTime, error) {
	if now != "" {
		t, err := time.ParseDuration(now)
		if err != nil {
			return 0, usagef("--now %q: want a time as 72h or 90m", now)
		}
		return t, nil
	}
	newest := rag.GameTime(0)
	s.All(func(m rag.Memory) bool {
		newest = max(newest, m.At, m.LastUse)
		return true
	})
	return newest, nil
}

type foundLine struct {
	rag.Line
	Score       float64 `json:"score"`
	Relevance   float64 `json:"relevance"`
	Recency     float64 `json:"recency"`
	Weight      float64 `json:"importance_share"`
	LexicalRank int     `json:"lexical_rank,omitempty"`
	DenseRank   int     `json:"dense_rank,omitempty"`
}

func foundLines(found []rag.Found) []foundLine {
	out := []foundLine{}
	for _, f := range found {
		out = append(out, foundLine{rag.LineOf(f.Memory), f.Score, f.Relevance, f.Recency, f.Importance,
			f.LexicalRank, f.DenseRank})
	}
	return out
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }

func foundBy(f rag.Found) string {
	by := []string{}
	if f.LexicalRank > 0 {
		by = append(by, fmt.Sprintf("words %d", f.LexicalRank))
	}
	if f.DenseRank > 0 {
		by = append(by, fmt.Sprintf("vector %d", f.DenseRank))
	}
	return strings.Join(by, ", ")
}

func spoken(m rag.Memory) string {
	if m.Speaker == "" {
		return m.Text
	}
	return m.Speaker + ": " + m.Text
}

func newMemoryShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show STORE ID",
		Short: "Show one memory with all that is known of it",
		Example: `  lull memory show saves/village 17
  lull memory show saves/village 17 --json | jq .sources`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return a.memoryShow(args[0], args[1]) },
	}
}

func (a *app) memoryShow(path, text string) error {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id == 0 {
		return usagef("%q is no id: want a number from 1, as `lull memory ls` shows", text)
	}
	s, err := a.viewMemories(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	found := []rag.Line{}
	s.All(func(m rag.Memory) bool {
		if m.ID == rag.ID(id) {
			found = append(found, rag.LineOf(m))
		}
		return len(found) == 0
	})
	if len(found) == 0 {
		return hinted{fmt.Errorf("there is no memory %d in %s", id, path), "`lull memory ls` shows the ids"}
	}
	l := found[0]
	if a.json {
		return a.ui.object(l)
	}
	a.ui.printf("memory %d of %s\n%s\n", l.ID, knownBy(l),
		visible(spoken(rag.Memory{Speaker: l.Speaker, Text: l.Text})))
	a.ui.printf("when        %s\nimportance  %d of 10\nreinforced  %d times\nlast use    %s\n",
		hours(rag.GameTime(l.At)),
		l.Importance, l.Reinforced, hours(rag.GameTime(*l.LastUse)))
	if l.Scene != "" {
		a.ui.printf("scene       %s\n", visible(l.Scene))
	}
	if len(l.Sources) > 0 {
		a.ui.printf("drawn from  %v\n", l.Sources)
	}
	if l.Until != nil {
		a.ui.printf("held until  %s, then memory %d took its place\n", hours(rag.GameTime(*l.Until)), l.SupersededBy)
	}
	return nil
}

func newMemoryStatsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "stats STORE",
		Short:   "Count what a store holds",
		Example: `  lull memory stats saves/village --json`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.memoryStats(args[0]) },
	}
}

func (a *app) memoryStats(path string) error {
	s, err := a.viewMemories(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	st := s.Stats()
	branch, parent, fork := s.Branch()
	if a.json {
		return a.ui.object(map[string]any{"memories": st.Memories, "superseded": st.Superseded, "derived": st.Derived,
			"vectors": st.Vectors, "pending": st.Pending, "circles": st.Shelves, "terms": st.Terms, "owners": st.Owners,
			"scopes": st.Scopes, "position": st.Position, "branch": branch, "forked_from": parent, "forked_at": fork,
			"model": st.Identity.Model, "pooling": st.Identity.Pooling, "dimension": st.Identity.Dimension})
	}
	a.ui.printf("memories    %d, of them %d superseded, %d drawn from others\n", st.Memories, st.Superseded, st.Derived)
	a.ui.printf("vectors     %d, %d wait for theirs\n", st.Vectors, st.Pending)
	if st.Identity.Model != "" {
		a.ui.printf("            by %s, pooling %s, %d numbers\n", visible(st.Identity.Model),
			visible(st.Identity.Pooling), st.Identity.Dimension)
	}
	a.ui.printf("circles     %d that know the same\nwords       %d\nbranch      %d", st.Shelves, st.Terms, branch)
	if parent != 0 {
		a.ui.printf(", forked from %d at %d", parent, fork)
	}
	a.ui.printf("\n")
	for _, name := range slices.Sorted(maps.Keys(st.Owners)) {
		a.ui.printf("%11d  of %s\n", st.Owners[name], cmp.Or(visible(name), "the world"))
	}
	return nil
}
