// Package speculative makes decoding faster where that pays: it guesses the
// next tokens, has the target model judge all guesses in one batch, and keeps
// those that are right. It is an llm.Speculator: set one in llm.EngineConfig.
//
// # Terms
//
// The target is the model whose reply it is. A candidate is a guessed token. A
// round is: k candidates are made, one verify batch of width B = k+1 computes
// the last token and all of them, and of the tokens that the target would have
// chosen itself those up to the first difference are given out: 1…k+1 tokens.
//
// Candidates have four sources. Three are patterns ("after these 1…4 tokens
// came that one") in a Table that belongs to one conversation: in text that the
// target chose (one sight weighs 4), in a prompt (2), in rejected drafts (1). A
// context longer by one token counts four times as much. A failure halves the
// weight; at 0 the pattern is gone. The fourth is a draft model: a small model
// with the target's vocabulary. Its batches are tentative, so a gate that
// closes stops them at the end of a layer; the candidates made until then are
// kept, and patterns fill the rest of the batch.
//
// # Why the output does not change
//
// Each candidate is a certain proposal: no dice are thrown for it. The exact
// rejection rule for such a proposal x, where the target's distribution is p,
// is: accept x with chance p(x), else draw from p without x. Drawing y from p
// and accepting when y = x, else giving out y, is the same thing: x comes out
// with chance p(x), and any y ≠ x with chance p(y). So row by row the target's
// own sampler draws from the target's own logits, as in plain decoding, and the
// candidate only says how many rows could be computed at once. The sampler sees
// the tokens given out, in order, and nothing else: no candidate ever reaches
// it, so penalties, grammars and the random state are those of plain decoding,
// with nothing to clone or to undo. With the same logits the same seed gives
// the same reply, not just one of the same distribution. After the round the
// sequence is truncated to what was given out.
//
// Logits of a wide batch may differ from those of a narrow one in the last
// bits, so where two tokens are nearly equally good the other may be chosen.
//
// # What it costs, in numbers
//
// If the i-th candidate is right with chance a (given that all before it were),
//
//	speed-up = (1 + a + a² + … + aᵏ) / (T(B)/T(1) + k·Td/T(1))
//
// where T(B) is the time of a batch of width B and Td that of one token of the
// draft model; patterns cost nothing. Measure a device once (Measure). Say it
// said T(B)/T(1) = 1.4, 2.0, 3.3 at B = 2, 4, 8, as a CPU may, and Td/T(1) =
// 0.25:
//
//	copying a list, a = 0.9:  B = 4 gives 3.44/2.0 = 1.72, B = 6 4.69/2.65 = 1.77,
//	                          B = 8 5.70/3.3 = 1.73: five candidates are verified
//	small talk, a = 0.3:      B = 2 gives 1.3/1.4 = 0.93: plain decoding
//	draft model, a = 0.8:     B = 3 gives 2.44/(1.7 + 0.5) = 1.11: two are drafted
//	break-even of patterns:   a = 0.54 at B = 4, 0.72 at B = 8
//	break-even of the model:  a = 0.75 at B = 4
//
// The chance a is a rolling rate for each source and length of context. For
// patterns it needs no verifying: each token of the reply is compared with what
// the table would have said, so a source that does not pay is found out for
// free. A Gate keeps account of what each source won and cost besides; one that
// loses is off for a cool-down of 2 s to 2 min.
//
// # What is out of scope
//
// Trees of candidates, early exit, draft models with another vocabulary, and
// several replies at one time: they share batches, which does the same for them.
package speculative
