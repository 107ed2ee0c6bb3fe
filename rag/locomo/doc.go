// Package locomo measures recall on conversations in the format of LoCoMo: two
// people talk in many sessions over months, and each question names the turns
// that hold its answer.
//
// A conversation becomes the memories of one listener: a turn is a memory, a
// session a scene. Each question is then asked, and what counts is the share of
// its evidence turns among the first 5 and 10 that are recalled, as the mean
// over the questions. Example: evidence D1:3 and D7:2, recalled D7:2 in third
// place and D1:3 in eighth: 0.5 at 5 and 1 at 10. "Any" counts a question as
// found when one of its turns is: 1 and 1 in the example.
//
// Beside what the store recalls stand baselines that are measured in the same
// run: BM25 over each turn, BM25 over each turn with the one before it, and
// vectors alone.
//
// Settings may be tuned on the conversations that Split gives as Tune; what is
// reported should be of the others. Whether answers that a model makes of the
// evidence are right is out of scope.
package locomo
