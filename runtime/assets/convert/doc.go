// Package convert writes sentence embedders of the BERT family as GGUF, the
// format that llama.cpp loads.
//
// # What goes in
//
// A folder as the sentence-transformers tools write it: model.safetensors (the
// weights), config.json (sizes), vocab.txt (one token a line, its number is its
// id), 1_Pooling/config.json (how token vectors become one) and, if there,
// tokenizer_config.json (whether text is lower-cased). Nothing of it is
// trusted: sizes are bounded before memory is taken, and every tensor must have
// the shape that config.json asks for.
//
// # What comes out
//
// One GGUF file of architecture "bert". Matrices are F32 or F16 as asked for;
// vectors, positions and token types stay F32, as they are small and llama.cpp
// wants them so. Weights keep their order in memory: a row of a PyTorch matrix
// is a row of a ggml one, only the two sizes are named the other way round.
//
// WordPiece writes the inside of a word as "##ing" and its beginning bare.
// llama.cpp writes the beginning as "▁ing" and the inside bare. So "play" becomes
// "▁play", "##ing" becomes "ing", and "[CLS]" stays.
//
// # Out of scope
//
// Quantising (llama.cpp does it, from the result), other architectures, and
// tokenizers other than WordPiece. The classifier and the pooler that training
// leaves in some files are dropped: embeddings don't use them.
package convert
