package main

import (
	"context"

	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/local"
)

// noEmbedder is the name of none.
const noEmbedder = "none"

// openEmbedder opens the embedder of a name; "" is the default one, "none" is
// nil. The function it returns frees it and is never nil.
func (a *app) openEmbedder(ctx context.Context, name string) (rag.Embedder, func() error, error) {
	free := func() error { return nil }
	if name == noEmbedder {
		return nil, free, nil
	}
	// One thread, though no game runs here: beside anything else that is busy, a
	// second one is waited for at each layer and makes it many times slower.
	e, err := local.OpenEmbedder(ctx, local.EmbedderConfig{Assets: a.assetOptions(), File: name})
	if err != nil {
		return nil, free, err
	}
	return e, e.Close, nil
}
