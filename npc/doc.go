// Package npc gives characters a voice: who they are, what they have been told,
// what a language model must read to answer as one of them, and what becomes of
// what it says.
//
// # Ten lines to a talking character
//
//	world, err := npc.NewWorld(npc.WorldConfig{Engine: rt.Engine, Model: rt.Model})
//	smith, err := npc.LoadPersona("blacksmith") // or your own YAML file
//	err = world.Add(npc.AgentSpec{ID: "smith-1", Persona: smith})
//	_, err = world.Say(npc.Line{To: "smith-1", Text: "What do you sell?"}, now)
//	for talking := true; talking; { // your game loop, once a frame
//		for _, e := range world.Poll(events[:0], now) {
//			if e.Kind == npc.EventText {
//				subtitle += e.Text
//			}
//			if e.Ends() { // EventDone, or it failed or was interrupted
//				talking = false
//			}
//		}
//	}
//
// That is Example; the example of World has everything else in it. The loop also
// calls FrameBegin and FrameEnd of package local's Runtime, and both its SetPhase
// and the World's: the one steers the model, the other the characters. At the end
// the World is closed before the Runtime.
//
// # Terms
//
// A Persona is a character sheet: a name, how the character speaks, what it
// knows, what it never does, and a few example lines. It comes from a YAML file
// that a writer edits (ParsePersona) or from the ones shipped (Shipped).
//
// A World is all the characters of a game. The game adds and removes them, says
// lines to them, gives them cues, facts, quests and actions, and polls Events.
// Characters that were gathered into one conversation hear each other.
//
// A turn is one time that a character speaks or chooses an action. It is asked
// for (Say, Cue, Resume), prepared (Prepare, off the game thread: memories are
// recalled, the Plan is made), computed by the engine, and spoken. Explain tells
// of each of the last turns why it went as it did.
//
// A Speech is what a character says, made of what the model says: thoughts go
// their own way, emotion tags become events, other voices and repetitions are
// cut off, and Sentences come out whole beside the deltas.
//
// An Offer is what a character may do now. Its Grammar lets a model say nothing
// but a valid call; Parse checks it again; the game accepts or refuses the
// Action.
//
// A Quest is the game's: its giver offers it (EventAction offer_quest, then, when
// accepted, EventQuest), and where it goes from there the game tells with SetQuest:
// active when the player takes it, done, failed. The words of the player decide
// nothing.
//
// A Chat is the smaller thing: one character, one player, no world. It makes
// the requests, and the caller submits and polls.
//
// # Who speaks when
//
// A turn is due one second after the player asked for it, or else 4 s and 0.25 s
// a metre of distance (60 m at most) after it was cued. What the player waits
// for goes first, by due time; then the others, by due time. Of the others that
// are overdue, one at a time counts as if the player waited for it. Example: the
// guard at 2 m and the beggar at 30 m are cued at 0 s, due at 4.5 s and 11.5 s;
// the player speaks to the smith every 2 s. The smith answers first each time;
// the guard gets the gaps, and from 4.5 s on is computed beside the smith; from
// 11.5 s on, when the guard is done, so is the beggar. Nobody waits for ever,
// however much the player talks.
//
// # A prompt
//
// MakePlan makes it from a persona and a history and nothing else, so equal
// arguments give equal prompts. Its parts stand in the order in which they
// change:
//
//	| head                                  | exchange 1    | exchange 2    | line | cue
//	| lore, rules, persona, example …       | player, reply | player, reply |      |
//	0                                     Keep = Cuts[0]  Cuts[1]         Cuts[2]
//
// The lore is the same for all characters of a world, so they share its cache;
// the head stays, so it is computed once, and a HeadFolder keeps it over a
// restart. What comes to a character's mind (facts, quests, memories) is noted
// beside the line that brought it up and stays there, so each prompt begins with
// the whole one before it and the model reads only what is new.
//
// # One turn, in numbers
//
// On SmolLM2 the head of the blacksmith takes 434 tokens, and an exchange about
// 40. With a context of 2048 tokens, of which 84 are kept free for the reply,
// 1964 are left for the prompt: the head and 38 exchanges fit. The next one
// does not; then whole exchanges are dropped until the prompt is Slack (491)
// tokens below the limit, after an EventOverflow. That is 13 of them, because
// each drop changes everything behind the head and the model must read it again.
// The next twelve turns drop nothing, and each prefills only what is new: about
// 17 tokens. Where a menu opens before that, the older half is summed up in two
// sentences instead.
//
// # What is heard when
//
// Say puts EventThinking and a bark (a line that was written beforehand) into
// the next Poll, so within one frame, in every phase: no model is asked. No bark
// is said again by anybody within WorldConfig.BarkQuiet, so a sheet wants as many
// for "thinking" as the player may ask questions in that time; without one there
// is EventThinking alone. While another of the conversation is speaking, that
// voice covers the wait, and the bark comes when it is over. Then
// the reply comes: EventText deltas, EventSentence
// after each whole sentence, EventDone. In a conversation one character speaks
// at a time.
//
// # What a player can do to a prompt
//
// Nothing but speak. A player's line is cut to MaxLineRunes, freed of control
// and invisible characters (CleanLine), and tokenised as content, where a
// string such as "<|im_end|>" is six ordinary tokens; so is what is remembered
// and what others said. What the model then makes of "ignore your instructions"
// is the model's to withstand; the Limits of the persona say what it should
// never do, it can call nothing that is not offered, and the game has the final
// word on what happens.
//
// # What is not said
//
// A block list (WorldConfig.Blocked, Persona.Blocked) and a content hook
// (WorldConfig.Content) stand between the Speech and the events. Text is held
// back as long as it may become an entry of the list; with a hook, until its
// sentence is judged. Then it is said, or an EventBlocked tells why not:
//
//	list         the sentence ends before the entry, with a dash if part of it was out;
//	             a hook's text that holds one is not said
//	replaced     the hook's text is said instead
//	dropped      the hook wants it left out
//	late         the hook said nothing within ContentTimeout
//	hook failed  the hook panicked
//
// and the reply goes on with the next sentence. Once a turn, a bark of the
// situation "blocked" stands in the gap. Example: the list has "goat*", the model
// says "I greet you. You old goatherd! Go home."; heard is "I greet you. You old —
// Go home.", and that is what the history holds. Barks, summaries and the free
// texts of actions go by the list too; a blocked action never reaches the game.
// A Chat has neither: its caller has the deltas first.
//
// # What is kept, and where
//
// Nothing is logged. What a player said is in the memory of the process (the
// history, the explanations of the last turns), in what Save returns, and in the
// Memory that the game gave: nowhere else, not in errors and not in the files of
// a HeadFolder. Nothing leaves the device: no package of lull that sees them imports the
// network.
//
// # In the middle of a sentence
//
// A turn ends once, with EventDone, EventInterrupted or EventFailed, and nothing
// of it comes afterwards. What was heard until then, and no more, is what the
// character and its conversation remember.
//
//	Interrupt   EventInterrupted; Resume goes on in the middle of the word
//	Say         interrupts who is spoken to; the new line is answered
//	Remove      EventInterrupted "removed"; a reply that others hear goes on
//	Save        the reply under way is not in it: it is as if it had not begun
//	Load        EventInterrupted; nothing of the past that ended is kept
//	SetModel    EventInterrupted; who waits is answered by the new model, and
//	            Resume comes back to what was said in new words
//	Close       no event; the engine is told to stop
//
// # Time
//
// now is the game's time in nanoseconds, given to each call: it may stand still
// in a pause, and go on from where a save left it. No clock is read here.
//
// # What is out of scope
//
// When a reply is computed, and on which device: package scheduler. Tokens into
// text: package llm. How memories are kept: package rag.
package npc
