package tidy

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one breach of a rule.
type Finding struct {
	Path    string
	Line    int
	What    string
	Instead string // what to write instead
}

func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s, %s", f.Path, f.Line, f.What, f.Instead)
}

// Rule is one thing that is checked. Find reports what breaks it; it calls
// excused for what an Exception may cover.
type Rule struct {
	Name string
	Find func(*checker)
}

// Exception lets one place break one rule, for a stated reason.
type Exception struct {
	Rule   string
	Path   string // file, or folder with what is below
	Name   string // function; empty means any
	Reason string
}

// All returns the rules in the order in which they are reported.
func All() []Rule {
	return []Rule{
		{"parse", findBroken},
		{"gofmt", findUnformatted},
		{"ladder", findLadder},
		{"fences", findFences},
		{"pure", findImpure},
		{"test-sleep", findTestSleeps},
		{"print", findPrints},
		{"panic", findPanics},
		{"unfinished", findUnfinished},
		{"skip", findSkips},
		{"machine", findMachineNames},
		{"lines", findLongLines},
		{"functions", findLongFunctions},
		{"package-doc", findMissingPackageDocs},
		{"exported-doc", findMissingDocs},
		{"titles", findTitles},
		{"architecture", findMissingFolders},
		{"dead", findDeadFiles},
		{"generated", findUnmarkedGenerated},
	}
}

// Check runs the rules over the tree. Findings are sorted by place. Exceptions
// that excuse nothing are findings.
func Check(t *Tree, rules []Rule, exceptions []Exception) []Finding {
	c := &checker{tree: t, exceptions: exceptions, used: make([]bool, len(exceptions))}
	for _, r := range rules {
		c.rule = r.Name
		r.Find(c)
	}
	for i, e := range exceptions {
		stale := !c.used[i] && slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == e.Rule })
		if stale {
			c.found = append(c.found, Finding{"internal/tidy/exceptions.go", 1,
				fmt.Sprintf("exception from %q for %s %s excuses nothing", e.Rule, e.Path, e.Name), "remove it"})
		}
	}
	slices.SortStableFunc(c.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return c.found
}

// checker is one run: what it looks at and what it has found.
type checker struct {
	tree       *Tree
	rule       string
	exceptions []Exception
	used       []bool
	found      []Finding
}

func (c *checker) report(f *File, line int, what, instead string) {
	c.found = append(c.found, Finding{f.Path, line, what, instead})
}

// excused reports whether an exception covers the place, and notes its use.
func (c *checker) excused(f *File, name string) bool {
	for i, e := range c.exceptions {
		if e.Rule == c.rule && below(f.Path, e.Path) && (e.Name == "" || e.Name == name) {
			c.used[i] = true
			return true
		}
	}
	return false
}

// below reports whether path is dir or lies in it.
func below(path, dir string) bool {
	return path == dir || len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
