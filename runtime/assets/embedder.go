package assets

import (
	"context"
	"os"
)

// DefaultEmbedder is what memories are embedded with when nobody says else. It
// is not among Defaults: a game without memories saves 83 MB of download.
const DefaultEmbedder = "all-minilm-l6-v2-q8_0"

// EnsureEmbedder answers with the embedder named, a GGUF file or a name in the
// catalogue, and fetches or makes it if the cache lacks it; "" is the default
// one.
func EnsureEmbedder(ctx context.Context, o Options, name string) (Found, error) {
	s, err := Open(o)
	if err != nil {
		return Found{}, err
	}
	// One that is to be converted stands for what is made of it.
	if _, err := os.Stat(name); err != nil {
		if a, ok := s.opts.Catalog.derivedFrom(name); ok && a.Kind == KindEmbedder {
			name = a.Name
		}
	}
	return s.ensure(ctx, KindEmbedder, func() (Found, error) {
		if name == "" {
			a, err := s.asset("locate", DefaultEmbedder)
			if err != nil {
				return Found{}, err
			}
			return s.cached(a)
		}
		found, _, err := s.given(KindEmbedder, SettingEmbedder, name, "")
		return found, err
	})
}
