// Package gbnf reads the grammars that constrain what a language model may say
// (llama.cpp's GBNF), refuses the ones that would bring a library down, and
// follows a reply through a grammar byte by byte.
//
// # Terms
//
// A Grammar is a list of rules; a reply begins at the rule "root". A State is
// where a reply stands: all the ways in which the grammar may go on. A state is
// complete when the reply may end there, and finished when it must.
//
// Forced is what has to follow, whatever the model would like: no choice, so no
// computing. For the grammar
//
//	root  ::= "{\"do\":\"" verb "\"}"
//	verb  ::= "give" | "go"
//
// the start forces `{"do":"g`; after "i" it forces `ve"}`, and the state is
// finished. Of the 13 characters of {"do":"give"} the model chose one.
//
// # What is read
//
// Literals "…" with the escapes \" \\ \[ \] \n \r \t \xHH \uHHHH \UHHHHHHHH,
// classes […] and [^…], the dot, groups, references, alternatives, and the
// repetitions * + ? {m} {m,} {m,n}; comments begin with #. It is a subset of
// what llama.cpp reads: what Parse takes, llama.cpp takes.
//
// # What is refused, and why
//
// Rules that are missing, or given twice; left recursion and repetitions of
// what may be empty, which never end; more rules, repetitions or nesting than a
// grammar for a game needs. In llama.cpp some of these throw through a C
// interface that can't carry exceptions, and end the process.
//
// # What is out of scope
//
// Which tokens spell a text (llm.Tokenizer) and what a grammar is for (npc).
package gbnf
