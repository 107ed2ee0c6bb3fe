// Package npc gives a character a voice: who it is, what it has been told, and
// what a language model must read to answer as that character.
//
// # Terms
//
// A Persona is a character sheet: a name, how the character speaks, what it
// knows, what it never does, and a few example lines. It comes from a YAML file
// that a writer edits (ParsePersona) or from the ones shipped (Shipped).
//
// A history is a list of turns, the player's and the character's in turn. A
// Chat keeps one history between one character and one player, makes an
// llm.Request of each line the player says, and folds the events that the
// engine gives back into the history.
//
// A Prompt is what the model reads, as tokens. BuildPrompt makes it from a
// persona and a history and nothing else, so equal arguments give equal
// prompts. It has a head that always stays (the sheet and the examples) and
// exchanges that may be dropped, oldest first:
//
//	| head                        | exchange 1    | exchange 2    | line | cue
//	| system, example, example …  | player, reply | player, reply |      |
//	0                        Keep = Cuts[0]         Cuts[1]         Cuts[2]
//
// # One turn, in numbers
//
// On SmolLM2 the head of the blacksmith takes 434 tokens, and an exchange about
// 40. With a context of 2048 tokens, of which 56 are kept free for the reply,
// 1992 are left for the prompt: the head and 38 exchanges fit. The next one
// does not; then whole exchanges are dropped until the prompt is Slack (498)
// tokens below the limit. That is 13 of them, because each drop changes
// everything behind the head and the model must read it again. The next twelve
// turns drop nothing, and each prefills only what is new: about 17 tokens.
//
// # What a player can do to a prompt
//
// Nothing but speak. A player's line is cut to MaxLineRunes, freed of control
// and invisible characters (CleanLine), and tokenised as content, where a
// string such as "<|im_end|>" is six ordinary tokens. What the model then makes
// of "ignore your instructions" is the model's to withstand; the Limits of the
// persona say what it should never do, and the game has the final word on what
// happens.
//
// # What is out of scope
//
// When a reply is computed, and on which device: package scheduler. Tokens into
// text: package llm.
package npc
