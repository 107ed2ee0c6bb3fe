package tidy

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	leaveHost   = "name the package and leave the host to the user's npm, pip or go"
	usersFolder = "use the user's folder as the program finds it"
)

// machineNames are what ties a text to one machine or one network. Each is
// written so that this file does not match it.
var machineNames = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(^|[^\w./*-])/(wor[k]|roo[t]|tm[p])\b`), "use a path relative to the repository"},
	{regexp.MustCompile(`/(hom[e]|User[s])/\w`), usersFolder},
	{regexp.MustCompile(`(?i)\b[a-z]:\\+User[s]\\`), usersFolder},
	{regexp.MustCompile(`(?i)\b(registry\.(npmj[s]|yarnpk[g])|pypi\.or[g]|pythonhoste[d])`), leaveHost},
	{regexp.MustCompile(`(?i)\b(proxy|sum)\.golan[g]`), leaveHost},
	{regexp.MustCompile(`(?i)\b(artifactor[y]|verdacci[o]|devp[i]|/nexu[s]/)`), leaveHost},
	{regexp.MustCompile(`https?://(1[0]\.|192\.16[8]\.|172\.(1[6-9]|2\d|3[01])\.)`), "name no private address"},
}

func findMachineNames(c *checker) {
	for _, f := range c.tree.Files {
		if f.Path == "go.sum" {
			continue // module hashes, written by Go
		}
		f.lines(func(n int, line string) {
			for _, m := range machineNames {
				if name := m.pattern.FindString(line); name != "" {
					c.report(f, n, "machine path or host "+strconv.Quote(strings.TrimSpace(name)), m.instead)
				}
			}
		})
	}
}

const (
	// maxColumns is the length of a line of code: two such files stand side by
	// side on a usual screen.
	maxColumns = 120
	// tabColumns is what a tab counts.
	tabColumns = 4
)

// sources are the endings of programs. Their lines are bounded; those of prose
// and data are not, since a table or a checksum can't be broken.
var sources = []string{".go", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".lua", ".gd", ".sh", ".py"}

func findLongLines(c *checker) {
	for _, f := range c.tree.Files {
		if !slices.Contains(sources, path.Ext(f.Path)) || f.InTestdata() || isGenerated(f) {
			continue
		}
		f.lines(func(n int, line string) {
			columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
			if columns > maxColumns && !unbreakable(line) {
				c.report(f, n, strconv.Itoa(columns)+" columns", "break the line at "+strconv.Itoa(maxColumns))
			}
		})
	}
}

// unbreakable reports whether one word alone is what makes a line too long: an
// address or a directive.
func unbreakable(line string) bool {
	for _, word := range strings.Fields(line) {
		if strings.Contains(word, "://") && utf8.RuneCountInString(word) > maxColumns/2 {
			return true
		}
	}
	return strings.HasPrefix(line, "//go:")
}

func findTitles(c *checker) {
	for _, f := range c.tree.Files {
		if path.Ext(f.Path) != ".md" || f.InTestdata() {
			continue
		}
		titles, fenced, last := 0, false, 1
		f.lines(func(n int, line string) {
			switch {
			case isFence(line):
				fenced = !fenced
			case !fenced && strings.HasPrefix(line, "# "):
				titles++
				last = n
			}
		})
		if titles != 1 {
			c.report(f, last, strconv.Itoa(titles)+" titles (lines that begin with \"# \")", "write exactly one")
		}
	}
}

// isFence reports whether a line of markdown begins or ends a code block.
func isFence(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")
}

var (
	// inlineFolder is a folder in running text: `runtime/llm/`.
	inlineFolder = regexp.MustCompile("`([\\w.~-]+(?:/[\\w.~-]+)*)/`")
	// treeFolder is a folder on a line of a layout block, by its indentation.
	treeFolder = regexp.MustCompile(`^(\s*)([\w.~-]+(?:/[\w.~-]+)*)/(?:\s|$)`)
	// buildFolders are named in texts and exist only after a build.
	buildFolders = []string{"bin", "dist"}
)

// findMissingFolders checks that each folder which ARCHITECTURE.md names is
// there, so that the map does not outlive the land.
func findMissingFolders(c *checker) {
	i := slices.IndexFunc(c.tree.Files, func(f *File) bool { return f.Path == "ARCHITECTURE.md" })
	if i < 0 {
		return
	}
	f := c.tree.Files[i]
	check := func(n int, dir string) {
		if !c.tree.Dirs[dir] && !slices.Contains(buildFolders, dir) {
			c.report(f, n, "folder "+dir+"/ does not exist", "correct the name or remove the line")
		}
	}
	type parent struct {
		indent int
		dir    string
	}
	var parents []parent
	fenced := false
	f.lines(func(n int, line string) {
		if isFence(line) {
			fenced, parents = !fenced, nil
			return
		}
		if !fenced {
			for _, m := range inlineFolder.FindAllStringSubmatch(line, -1) {
				check(n, m[1])
			}
			return
		}
		m := treeFolder.FindStringSubmatch(line)
		if m == nil {
			return
		}
		indent, dir := len(m[1]), m[2]
		for len(parents) > 0 && parents[len(parents)-1].indent >= indent {
			parents = parents[:len(parents)-1]
		}
		if len(parents) > 0 {
			dir = path.Join(parents[len(parents)-1].dir, dir)
		}
		parents = append(parents, parent{indent, dir})
		check(n, dir)
	})
}
