package llamacpp

import (
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// named is what a model's file says of its name.
type named struct {
	file                 string // path
	name, basename, size string // general.name, general.basename, general.size_label
	format               string // "Q4_0"
}

// quantSuffix is how files name the format of their weights.
var quantSuffix = regexp.MustCompile(`(?i)[-._ ](i?q\d\w*|f16|f32|bf16|mxfp4\w*)$`)

// display is a name for people. Converters derive general.name from the folder
// that they found the model in, which may be a training run's, so the file's
// name is taken where it names the same model, and else the model's own parts.
func (n named) display() string {
	file := strings.TrimSuffix(filepath.Base(n.file), ".gguf")
	for quantSuffix.MatchString(file) {
		file = quantSuffix.ReplaceAllString(file, "")
	}
	base := letters(n.basename)
	var title string
	switch {
	case base != "" && strings.Contains(letters(file), base):
		title = file
	case base != "":
		title = n.basename
		if !strings.Contains(letters(title), letters(n.size)) {
			title += " " + n.size
		}
	case n.name != "":
		title = n.name
	default:
		title = file
	}
	words := strings.FieldsFunc(title, func(r rune) bool { return r == '-' || r == '_' || unicode.IsSpace(r) })
	return strings.Join(append(words, n.format), " ")
}

// letters are the letters and digits of a name, in lower case.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}
