// Package rag keeps what the characters of a game remember, finds what fits the
// moment, and does the slow part, embedding, only in time that it is granted.
//
// # Model
//
// A [Memory] is one thing that somebody knows: an owner, a scope that says who
// else may know it, the text as it was said or seen, the game time, an importance
// of 1…10. Texts are never rewritten. The same words told again reinforce the
// memory that is there; a fact that no longer holds is superseded: it stays, with
// the time until which it held; a conclusion cites its sources, and no wider
// circle may know it than may know them.
//
// Memories that the same characters may know stand on one shelf. A recall opens
// the shelves that the asking character may read and no others, so another's
// secrets change neither what it finds nor the scores.
//
// # From said to found
//
//	Remember ─▶ queue ─▶ words index          found from now on, by its words
//	              │
//	              ├────▶ journal ─▶ event      durable: survives kill -9
//	              │
//	              └────▶ pending ─▶ Work       found by its meaning too
//
// [Store.Remember] checks the memory and puts it into a bounded queue: a few
// microseconds, no file, no embedding, no lock that is held long. Each recall
// first takes in what is in the queue, so a memory is found by its words at once.
// A writer appends it to the journal and an event [Durable], polled with
// [Store.Poll], acknowledges it. [Store.Work] gives it a vector when the game
// grants time: it predicts the cost of the next text from those before, starts
// what fits into the budget and nothing else, and with a budget of 0 does nothing.
// [Store.Due] asks for a slice once a memory has waited for half of
// Config.EmbedWithin, so that each has its vector by then if slices are granted.
//
// What embedding costs is what a [Timed] embedder says, or else the time of the
// call. A text of which the embedder knows nothing ([ErrNoContent], a row of emoji
// for instance) stays without a vector; one that it refuses is tried three times,
// and an event [NotEmbedded] says why. Both are found by their words.
//
// At Config.Backlog waiting changes Remember writes a small slice itself: it then
// costs what the disk costs, but drops nothing. Only while the disk fails does it
// refuse, with [ErrBacklog].
//
// # Recall
//
// Two lists are made of what the character may know at the query's time: by BM25
// over each text together with the line before it in its scene, which finds all
// there is, and by the cosine of vectors, where there are some, with the names of
// speakers in the question put as "I". Equal scores share a rank. With k = FusionK
// the lists are fused by reciprocal rank:
//
//	relevance  = mean over the lists of (k + 1) / (k + rank)     0 where it is not in the list
//	recency    = Decay ^ (game hours since it was last told or recalled)
//	importance = (importance - 1) / 9
//	score      = weighted mean of the three                      each lies in [0, 1]
//
// A memory without a vector can't stand in the second list, so for it the mean is
// over the first alone. Order: score, then the older id.
//
// Example, with the defaults (k = 10, Decay = 0.995, weights 1, 0.1, 0.1). After 72
// hours somebody asks Mara: who stole the sword?
//
//	                                          hours  words  vector  relevance  recency  importance  score
//	2 "Tarn stole the sword."       imp. 8       1      1     none      1.000    0.995       0.778  0.981
//	1 "I forged a sword."           imp. 3      72      2        2      0.917    0.697       0.222  0.840
//	3 "The thief ran to the hills." imp. 5      48      –        1      0.500    0.786       0.444  0.519
//
// Memory 2 was told an hour ago and has no vector yet. Its relevance is 11/11;
// that of 1 is (11/12 + 11/12)/2, that of 3 (0 + 11/11)/2. Recalled, all three
// count as used at hour 72, unless the query is ReadOnly, which changes nothing.
//
// # Files
//
// The journal (memory-N.log) and the snapshot that it continues (memory.snap) are
// the truth; indexes are made of them when the store opens. A frame is a mark,
// length, CRC32C and a msgpack record, whose lengths are checked before anything
// is made of them. A torn end is cut off when the store opens, which is noted;
// damage further in is stepped over, and the damaged file kept. Compacting writes
// the next journal, then the next snapshot in one rename, which is the moment that
// counts, then removes the old journal. One process at a time may write.
//
// [Store.Save] writes one file with all memories as they are at the call: a branch
// and a position of the log. [Store.Load] forks there: a new branch begins, what
// was remembered since is of another future and gone, and embeddings under way for
// it are dropped. [Store.Clear] begins one that is empty. Ids are never given twice,
// so nothing of the old future can attach itself to the new one.
//
// A store remembers the model, pooling and dimension of its vectors. With another
// embedder it finds by words only, until [Store.Reindex] has Work make them anew.
//
// # Index
//
// Vectors of a shelf stand in chromem-go up to Config.ChromemMost of them, and in
// an int8 scan above; both give the same hits in the same order but for the last
// digits of a cosine. BenchmarkIndex measures where the one overtakes the other.
//
// # Out of scope
//
// What becomes a memory, how important it is, and what is concluded from it: the
// game or a model decides that. Approximate search: a scan of 100,000 vectors takes
// milliseconds. Forgetting a single memory: what is cleared is everything.
package rag
