package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/rag"
)

func newMemoryExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export STORE [FILE]",
		Short: "Write all memories as JSON Lines",
		Long: `Write all memories of a store as JSON Lines, one a line, whoever may know them;
without FILE, or with -, to standard output. Vectors are not in it: they can be
made again. With --json and a FILE the command tells how many there were.`,
		Example: `  lull memory export saves/village village.jsonl
  lull memory export saves/village | jq -r 'select(.owner == "Mara") | .text'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.memoryExport(args[0], append(args, "-")[1])
		},
	}
}

func (a *app) memoryExport(path, file string) error {
	if err := checkFolder("FILE", file); err != nil {
		return err
	}
	s, err := a.viewMemories(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if file == "-" {
		_, err := s.Export(a.ui.out)
		return err
	}
	var data bytes.Buffer
	count, err := s.Export(&data)
	if err != nil {
		return err
	}
	if err := writeFile(file, data.Bytes()); err != nil {
		return err
	}
	if a.json {
		return a.ui.object(map[string]any{"exported": count, "file": file})
	}
	a.ui.printf("%s in %s\n", memories(count), file)
	return nil
}

func newMemoryImportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "import STORE FILE",
		Short: "Add memories from JSON Lines",
		Long: `Add the memories of FILE, in the form that export writes, to a store; - is
standard input. A line needs owner and text; scope (own, witnessed, faction,
region, world) with its audience, speaker, scene, at_s (seconds of game time),
importance (1…10) and sources are what a line may have. All lines are checked
first: if one is wrong, none is added. A memory that is there already is not
added again, so a file may be imported twice. Ids are given anew.`,
		Example: `  lull memory import saves/village lore.jsonl
  echo '{"owner":"","scope":"world","text":"The king is dead."}' | lull memory import saves/village -`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return a.memoryImport(args[0], args[1]) },
	}
}

func (a *app) memoryImport(path, file string) error {
	in := a.ui.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	s, err := a.openMemories(path, nil)
	if err != nil {
		return err
	}
	before := s.Stats().Memories
	done, err := s.Import(in)
	wrong := err != nil && !errors.Is(err, rag.ErrBacklog)
	if err == nil {
		err = s.Flush()
	}
	if closed := s.Close(); closed != nil { // what can't be written stays behind
		err = errors.Join(cmp.Or(err, closed), s.Abandon())
	}
	switch {
	case wrong:
		return hinted{err, "nothing was added; correct that and import again"}
	case err != nil:
		return importStopped(path, before, err)
	case a.json:
		return a.ui.object(map[string]any{"added": done.Added, "known": done.Known})
	}
	a.ui.printf("%s added, %d known before\n", memories(done.Added), done.Known)
	return nil
}

// importStopped tells what is on the disk after a store could not be written any
// more.
func importStopped(path string, before int, err error) error {
	kept := 0
	if s, unread := rag.View(rag.DefaultConfig(""), path); unread == nil {
		kept = s.Stats().Memories - before
		err = errors.Join(err, s.Close())
	}
	hint := "see to the folder"
	if errors.Is(err, syscall.ENOSPC) {
		hint = "make room on the disk"
	}
	return hinted{fmt.Errorf("%s added, then the store could not be written: %w", memories(kept), err),
		hint + " and import the same file again: what is there already is not added twice"}
}

// reportLines is what verify and repair say as JSON.
func reportObject(r rag.Report) map[string]any {
	notes := r.Notes
	if notes == nil {
		notes = []string{}
	}
	return map[string]any{"ok": r.OK, "memories": r.Memories, "vectors": r.Vectors, "position": r.Position,
		"generation": r.Generation, "branch": r.Branch, "notes": notes}
}

func (a *app) printReport(r rag.Report) {
	for _, n := range r.Notes {
		a.ui.printf("%s\n", visible(n))
	}
	a.ui.printf("%s, %d with vectors, up to position %d\n", memories(r.Memories), r.Vectors, r.Position)
}

func newMemoryVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify STORE",
		Short: "Check every record of a store or a save, and change nothing",
		Long: `Read every record of a store or a save and say what is damaged. A torn end of
the journal, as a crash leaves it, is no damage: the next start cuts it off, and
nothing that was acknowledged was in it. Damage ends with exit code 1.`,
		Example: `  lull memory verify saves/village
  lull memory verify saves/slot1.memories --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.memoryVerify(args[0]) },
	}
}

func (a *app) memoryVerify(path string) error {
	r, err := rag.Verify(path)
	if err != nil {
		return adviseMemory(path, err)
	}
	if a.json {
		if err := a.ui.object(reportObject(r)); err != nil {
			return err
		}
	}
	a.printReport(r)
	if !r.OK {
		return hinted{fmt.Errorf("%s is damaged; readable: %s", path, memories(r.Memories)),
			"`lull memory repair` keeps what is readable and the damaged files beside it"}
	}
	return nil
}

func newMemoryRepairCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "repair STORE",
		Short: "Write what is readable of a damaged store or save anew",
		Long: `Write what is readable of a damaged store or save anew. The damaged files stay
beside it, with .damaged behind their names. A sound store is left as it is.`,
		Example: `  lull memory repair saves/village`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.memoryRepair(args[0]) },
	}
}

func (a *app) memoryRepair(path string) error {
	r, err := rag.Repair(path)
	if err != nil {
		return adviseMemory(path, err)
	}
	if a.json {
		o := reportObject(r)
		o["repaired"] = !r.OK
		return a.ui.object(o)
	}
	a.printReport(r)
	if r.OK {
		a.ui.printf("nothing was to be repaired\n")
		return nil
	}
	a.ui.printf("repaired; the damaged files are beside it, with .damaged behind their names\n")
	return nil
}

func newMemoryReindexCommand(a *app) *cobra.Command {
	var embedder string
	var force bool
	c := &cobra.Command{
		Use:   "reindex STORE",
		Short: "Make the vectors of a store, anew if they are of another embedder",
		Long: `Give each memory without a vector its vector. Vectors of another embedder are
dropped first, since vectors of two models can't be compared. A game does the
same in small slices while it plays; this does it at once.`,
		Example: `  lull memory reindex saves/village
  lull memory reindex saves/village --embedder my-embedder.gguf --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.memoryReindex(cmd.Context(), args[0], embedder, force)
		},
	}
	c.Flags().StringVar(&embedder, "embedder", "", "`NAME` or file of the embedder; else the default one")
	c.Flags().BoolVar(&force, "force", false, "also where the vectors are of this embedder")
	return c
}

func (a *app) memoryReindex(ctx context.Context, path, embedder string, force bool) (err error) {
	if embedder == noEmbedder {
		return usagef("--embedder none makes no vectors: want an embedder")
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return hinted{fmt.Errorf("%s is no folder: a save has no vectors to make anew", path),
			"give the store's folder"}
	}
	if s, err := rag.View(rag.DefaultConfig(""), path); err != nil { // opening would make a store of any folder
		return adviseMemory(path, err)
	} else if err := s.Close(); err != nil {
		return err
	}
	e, free, err := a.openEmbedder(ctx, embedder)
	if err != nil {
		return err
	}
	defer freeing(&err, free)
	s, err := a.openMemories(path, e)
	if err != nil {
		return err
	}
	defer closing(&err, s)
	if err := s.Reindex(force); err != nil {
		return err
	}
	done, err := a.embedWaiting(ctx, s)
	if err = errors.Join(err, s.Flush()); err != nil {
		return err
	}
	st := s.Stats()
	if a.json {
		return a.ui.object(map[string]any{"made": done, "vectors": st.Vectors, "memories": st.Memories,
			"given_up": st.GivenUp, "model": st.Identity.Model})
	}
	a.ui.printf("%d vectors made; %d of %d memories have theirs\n", done, st.Vectors, st.Memories)
	return nil
}
